"""`tokenloom play` as a command: what it prints, refuses and needs."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.cli.helpers import Shell
from tests.web.helpers import TINY, Client


def test_a_port_that_is_taken_is_a_sentence(shell: Shell) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = shell.refusal("play", "--port", str(port), "--no-open")
    assert f"cannot listen on 127.0.0.1, port {port}" in told
    assert "choose another --port, or 0 for a free one" in told


def test_a_wrong_model_or_limit_is_told_to_who_starts_it(shell: Shell) -> None:
    assert "runs/none is not a run" in shell.refusal("play", "runs/none", "--port", "0")
    assert "workers must be at least 1, got 0" in shell.refusal("play", "--limits.workers", "0")


def test_without_the_extra_it_says_what_to_install(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'this needs the library uvicorn; run pip install "tokenloom[play]"' in shell.refusal("play")


def test_it_serves_says_where_warns_and_ends_quietly() -> None:
    command = [sys.executable, "-m", "tokenloom", "play", TINY, "--port", "0", "--no-open", "--host", "0.0.0.0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:\d+/", said)
        assert address is not None, said
        with urllib.request.urlopen(f"{address[0]}api/models", timeout=10) as answer:
            assert TINY.encode() in answer.read()
        warning = process.stdout.readline()
        assert "beware: this server is open to other machines" in warning
        endless = Client(address[0]).lines(model=TINY, sampling={"steps": 1024, "corrector": "scan"})
        assert next(endless)["kind"] == "start"
        process.send_signal(signal.SIGINT)
        ended = time.monotonic()
        _, errors = process.communicate(timeout=15)
        assert time.monotonic() - ended < 8
        assert errors == "interrupted\n"
        endless.close()  # type: ignore[attr-defined]
    finally:
        process.kill()
        process.communicate()
