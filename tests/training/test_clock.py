"""A run ends within its minutes, the last validation and saving included."""

import time
from pathlib import Path
from typing import Any

import pytest

from tests.training.helpers import tiny, train
from tokenloom.training import loop
from tokenloom.training.batches import validate
from tokenloom.training.ending import Clock
from tokenloom.training.reporting import Reporter


def test_a_run_leaves_time_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of its own: a step takes 1 s, a validation 5 s and saving 1 s of the minute."""
    now, reporter = 1000.0, Reporter(quiet=True)
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def spending(seconds: float, work: Any) -> Any:
        def spend(*arguments: Any) -> Any:
            nonlocal now
            now += seconds
            return work(*arguments)

        return spend

    monkeypatch.setattr(reporter, "step", spending(1.0, reporter.step))
    monkeypatch.setattr(loop, "validate", spending(5.0, validate))
    monkeypatch.setattr(loop, "write_checkpoint", spending(1.0, lambda *arguments: None))
    run = {"validate_every": 20, "valid_rows": 8, "checkpoint_every": 20}
    result = train(tiny(tmp_path / "run", max_steps=None, max_minutes=1.0, run=run), reporter=reporter)
    assert 50 < now - 1000 <= 60
    assert 30 < result.steps < 50


def test_the_end_is_guessed_from_the_steps_until_it_has_been_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    clock = Clock(1.0)
    with clock.timing("step"):
        now += 1.0
    assert not clock.over(10.0)
    assert clock.left() == pytest.approx(60 - 1 - 1.2 * (0.7 * 10 + 1))
    with clock.timing("figure"):
        now += 3.0
    assert not clock.over(10.0)
    assert clock.left() == pytest.approx(60 - 4 - 1.2 * (3 + 1))
    now = 60 - 1.2 * 4 - 0.5
    assert clock.over(10.0)  # half a second is left, and a step takes one


def test_a_resumed_run_counts_the_minutes_before() -> None:
    clock = Clock(10.0)
    clock.before = 9 * 60.0
    assert clock.minutes == pytest.approx(9.0, abs=0.01)
    assert clock.share() == pytest.approx(0.9, abs=0.01)
