"""Terminals and files that take ASCII alone, as with PYTHONIOENCODING=ascii or LC_ALL=C, and closed streams."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASCII, C = {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "LANG": "C"}


@pytest.mark.parametrize(
    ("setting", "arguments", "shown"),
    [
        (ASCII, ["--help"], "* sample "),
        (C, ["--help"], "* sample "),
        (C, ["evaluate", "sudoku4-udm-loo", "--sequences", "4", "--samples", "1"], "<= 0."),
    ],
)
def test_what_ascii_cannot_show_is_spelt_out(
    setting: dict[str, str], arguments: list[str], shown: str, tmp_path: Path
) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "PYTHONUTF8"))}
    environment |= setting | {"PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "tokenloom", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout.decode("ascii")
    done.stderr.decode("ascii")


@pytest.mark.skipif(os.name == "nt", reason="a shell of Unix closes the streams")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("command", "status"), [("--help", 0), ("smaple", 2)])
def test_a_stream_that_is_closed_is_no_error(closed: str, command: str, status: int) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "tokenloom", command]
    done = subprocess.run(shell, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (status, False)


def test_a_help_text_ends_in_any_width() -> None:
    command = [sys.executable, "-m", "tokenloom", "--help"]
    done = subprocess.run(command, env=os.environ | {"COLUMNS": "1"}, capture_output=True, timeout=60, check=True)
    assert b"sample" in done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk to try")
def test_a_full_disk_gets_a_sentence() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tokenloom", "--version"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, b"No space left" in done.stderr, b"Traceback" in done.stderr) == (2, True, False)
