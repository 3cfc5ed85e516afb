"""A disk that refuses never ends a run before its last step, and never leaves half a line.

The kernel itself refuses: a limit on the size of files lets a write through in part, as a full disk does.
"""

import json
import math
import os
import resource
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tests.training.helpers import losses, tiny, train
from tokenloom.models.checkpoint import newest_intact
from tokenloom.models.store import load_model
from tokenloom.training import reporting
from tokenloom.training.config import TrainConfig
from tokenloom.training.reporting import MetricsFile, Reporter

Limiting = Callable[[int | None], None]


@pytest.fixture
def limit() -> Iterator[Limiting]:
    """Let no file of this process grow beyond so many bytes, until None lifts the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (soft if size is None else size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_lines_that_do_not_fit_are_kept_whole_and_written_later(tmp_path: Path, limit: Limiting) -> None:
    said: list[str] = []
    path = tmp_path / "metrics.jsonl"
    write = MetricsFile(path, said.append)
    limit(40)
    for step in range(10):
        write({"step": step, "loss": 0.5})
    limit(None)
    lines = path.read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0]
    assert len(said) == 1
    assert said[0].startswith(f"cannot write {path}: No space left on device; the run continues")
    write({"step": 10, "loss": 0.5})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == list(range(11))
    assert said[1:] == [f"{path} is written again"]


def test_half_a_line_of_a_killed_run_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "lo')
    MetricsFile(path, print)({"step": 3})
    assert path.read_text() == '{"step": 1}\n{"step": 3}\n'


Scenario = tuple[TrainConfig, Reporter, list[str], list[float]]


def run_with(tmp_path: Path, limit: Limiting, sizes: dict[int, int | None], steps: int = 12) -> Scenario:
    """A run after some steps of which files may have other sizes; what it says, and its losses."""
    said: list[str] = []
    trained: list[float] = []
    reporter = Reporter()
    real = reporter.step

    def step(number: int, loss: float, *details: Any) -> None:
        real(number, loss, *details)
        trained.append(loss)
        if number in sizes:
            limit(sizes[number])

    reporter.say, reporter.step = said.append, step  # type: ignore[method-assign, assignment]
    run = {"checkpoint_every": 4, "validate_every": 6, "valid_rows": 8}
    return tiny(tmp_path / "run", max_steps=steps, run=run), reporter, said, trained


def test_a_run_outlives_a_full_disk_and_saves_when_there_is_room_again(tmp_path: Path, limit: Limiting) -> None:
    config, reporter, said, _ = run_with(tmp_path, limit, {1: 90, 10: None})
    assert train(config, reporter=reporter).steps == 12
    refused = [sentence for sentence in said if "cannot write" in sentence or "could not" in sentence]
    assert {sentence.split(":")[0] for sentence in refused} >= {"step 4", "step 6", "step 8"}
    newest, damaged = newest_intact(tmp_path / "run" / "checkpoints")
    assert newest is not None
    assert newest.step == 12
    assert damaged == []
    assert load_model(tmp_path / "run" / "model").about.step == 12
    assert set(losses(tmp_path / "run")) == {1, 2, 3}


def test_a_disk_that_is_full_to_the_end_gets_all_steps_and_then_the_sentence(tmp_path: Path, limit: Limiting) -> None:
    config, reporter, said, trained = run_with(tmp_path, limit, {1: 90})
    with pytest.raises(ValueError, match=r"cannot write .*File too large"):
        train(config, reporter=reporter)
    limit(None)
    assert len(trained) == 12
    assert all(map(math.isfinite, trained))
    assert any("validation bound" in sentence for sentence in said)


def test_a_writer_of_another_package_that_fails_is_named_and_dropped(
    tmp_path: Path, limit: Limiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = Mock(**{"SummaryWriter.return_value.add_scalar.side_effect": RuntimeError("no room")})
    monkeypatch.setattr(reporting, "optional", lambda *names: board)
    config, reporter, said, _ = run_with(tmp_path, limit, {}, steps=4)
    train(replace(config, run=replace(config.run, tensorboard=True)), reporter=reporter)
    named = [sentence for sentence in said if "TensorBoard" in sentence]
    assert named == ["TensorBoard failed (RuntimeError: no room); the run continues without it"]


def test_metrics_that_are_a_pipe_do_not_stop_a_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    said: list[str] = []
    write = MetricsFile(tmp_path / "metrics.jsonl", said.append)
    write({"step": 1})
    assert "it is a pipe, not a file; the run continues" in said[0]
