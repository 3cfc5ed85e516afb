"""Nothing is silent for long: lines where the output is piped, and after the first steps what to expect."""

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from tests.training.helpers import tiny, train, wait_until
from tokenloom.support import display
from tokenloom.support.display import Display
from tokenloom.training import reporting
from tokenloom.training.reporting import Reporter


def test_piped_work_is_a_line_now_and_then_of_the_innermost_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "OFTEN", 0.03)
    file = io.StringIO()
    shown = Display(Console(file=file))

    def said_twice(text: str) -> None:
        wait_until(lambda: [line.split("  ")[0] for line in file.getvalue().splitlines()[-2:]] == [text, text])

    with shown.status("loading [the] data"):
        said_twice("loading [the] data")
        with shown.status("validating"):
            said_twice("validating")
        said_twice("loading [the] data")


def test_a_terminal_has_one_bar() -> None:
    file = io.StringIO()
    shown = Display(Console(file=file, force_terminal=True, width=100))
    with shown.status("training"):
        shown.update("step 3", 0.5)
        with shown.status("saving"):
            time.sleep(0.2)
    assert "saving" in file.getvalue()


def test_a_run_says_what_to_expect_and_is_heard_of_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(display, "OFTEN", 0.02)
    monkeypatch.setattr(reporting, "FIRST_SECONDS", 0.0)
    train(tiny(tmp_path / "run", max_steps=40, run={"validate_every": 30}), reporter=Reporter())
    said = capsys.readouterr().err
    assert "tokens per second: expect about 40 steps (2,560 tokens) in " in said
    assert "a validation at step 30 in " in said
    assert "step 30: validation bound " in said
    assert "loss " in said
