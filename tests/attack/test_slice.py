"""A slice of `make attack`, in a process of its own: without the import hook, shapes are unchecked as for users."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.attack.outcome import Outcome, RefusalError, WrongError, failures, table, verdict_of


def test_a_slice_of_the_attack_ends_in_results_and_sentences() -> None:
    command = [sys.executable, "-m", "tests.attack", "--share", "0.006", "--jobs", "1", "--patience", "4"]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def caught(work: object) -> str:
    """The verdict on what a call raises."""
    with pytest.raises(BaseException) as found:  # noqa: PT011
        work()  # type: ignore[operator]
    return verdict_of(found.value)[0]


def test_only_what_the_package_raises_itself_is_a_sentence() -> None:
    import torch

    import tokenloom as tl

    assert caught(lambda: tl.Truncation(top_p=1.5)) == "sentence"
    assert caught(lambda: failures()) == "sentence"  # type: ignore[call-arg]
    assert caught(lambda: torch.zeros(2, 3) @ torch.zeros(2, 3)) == "foreign words"
    assert caught(lambda: int("this is not a whole number")) == "foreign words"
    assert caught(lambda: dict[str, int]()["key"]) == "traceback"


def test_a_refusal_is_judged_by_what_the_command_caught() -> None:
    refusal, silent = RefusalError("status 2: error: it is not so, and cannot be"), WrongError("other weights")
    refusal.__cause__ = ValueError("Overflow when unpacking long long")
    assert verdict_of(refusal)[0] == "foreign words"
    refusal.__cause__ = None
    assert verdict_of(refusal)[0] == "sentence"
    assert verdict_of(silent)[:2] == ("silent", "other weights")


def test_equal_failures_are_one_entry_with_the_shortest_try() -> None:
    long, short = (
        Outcome("calls", n, title, "hang", "no result", "here") for n, title in ((1, "f(1, 2)"), (2, "f(1)"))
    )
    text = failures([long, short, Outcome("calls", 3, "g()", "result")])
    assert text.startswith("2 x hang in calls: here")
    assert "--kind calls --case 2: f(1)" in text
    assert table([long, short]).splitlines()[-1].split()[:5] == ["all", "2", "0", "0", "2"]
