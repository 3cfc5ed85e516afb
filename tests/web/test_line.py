"""The line in front of the workers: bounded, in order, and left by those who go away."""

import asyncio
import gc
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tokenloom as tl
from tests.web.helpers import TINY, Client, alone, running
from tokenloom.web import app
from tokenloom.web.app import Playground
from tokenloom.web.library import Library
from tokenloom.web.requests import Limits

STATUS = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process in memory."""
    return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_beyond_the_limit_a_request_is_refused_with_a_sentence_and_the_others_are_answered() -> None:
    playground = Playground(Library([TINY]), Limits(workers=1, waiting=3))
    open_gate = threading.Event()

    async def hold_the_worker() -> None:
        playground.drawing.start(lambda job: open_gate.wait(20))

    with running(playground) as client, ThreadPoolExecutor(12) as pool:
        pool.submit(lambda: asyncio.run(hold_the_worker())).result()  # a browser's loop may run in this thread
        asked = [pool.submit(client.draw, model=TINY, seed=seed, sampling={"steps": 4}) for seed in range(12)]
        while sum(one.done() for one in asked) < 9:
            time.sleep(0.01)
        open_gate.set()
        answers = [one.result() for one in asked]
    refused = [lines for lines in answers if lines[0]["kind"] == "refused"]
    served = {seed: lines for seed, lines in enumerate(answers) if lines[-1]["kind"] == "end"}
    assert (len(refused), len(served)) == (9, 3)
    sentence = "3 drawings are waiting already, which is the limit; try again in a moment"
    assert {(lines[0]["status"], lines[0]["sentence"]) for lines in refused} == {(503, sentence)}
    for seed, lines in served.items():
        assert lines[0] == {"kind": "waiting", "before": lines[0]["before"]}
        assert lines[-1]["tokens"] == alone(TINY, seed, tl.Sampler(steps=4))
    assert sorted(lines[0]["before"] for lines in served.values()) == [1, 2, 3]


def test_questions_of_those_who_left_are_not_worked_through() -> None:
    """Twenty visitors ask while the worker is held, and close their connections: the worker answers none of them."""
    playground = Playground(Library([TINY]), Limits(waiting=40))
    open_gate, answered = threading.Event(), []

    def describe(*asked: object) -> dict[str, object]:
        answered.append(asked)
        return {}

    body = json.dumps({"model": TINY}).encode()
    head = "POST /api/describe HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with running(playground) as client, pytest.MonkeyPatch.context() as patched:
        patched.setattr(app, "describe", describe)
        held = playground.asking._pool.submit(open_gate.wait, 20)
        for _ in range(20):
            with client.connect() as connection:
                connection.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
                while not playground.asking.inside:
                    time.sleep(0.01)
        end = time.monotonic() + 20
        while playground.asking.inside and time.monotonic() < end:
            time.sleep(0.05)
        assert not playground.asking.inside
        open_gate.set()
        held.result()
        client.ask("describe", model=TINY)
    assert len(answered) == 1


@pytest.mark.skipif(not STATUS.exists(), reason="this system does not say how much memory a process has")
def test_memory_is_flat_over_many_requests(client: Client) -> None:
    """A slice of scripts/load_playground.py, which does a thousand."""

    def many(first: int) -> None:
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(client.draw, model=TINY, seed=first + i, sampling={"steps": 2}) for i in range(24)]
        assert all(one.result()[-1]["kind"] == "end" for one in asked)
        gc.collect()

    many(0)
    before = resident()
    many(100)
    assert resident() - before < 16e6
