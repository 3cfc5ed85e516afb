"""The loop from inside: what it trains, skips, carries and refuses."""

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import Tensor

from tests.training.helpers import tiny
from tokenloom.objectives import CrossEntropy
from tokenloom.store import load_model
from tokenloom.training import loop
from tokenloom.training.build import build_bound, build_data, build_model
from tokenloom.training.checkpoint import (
    checkpoints,
    damage,
    read_checkpoint,
)
from tokenloom.training.reporting import Reporter
from tokenloom.training.validation import validate


@pytest.fixture(autouse=True)
def restore_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


METHODS = [
    ("udm", "loo", "ce", "dit"),
    ("udm", "loo", "nelbo", "dit"),
    ("udm", "denoiser", "ce", "dit"),
    ("udm", "denoiser", "hybrid", "dit"),
    ("udm", "score", "score-entropy", "dit"),
    ("udm", "loo", "crm", "hollow"),
    ("udm", "loo", "finite-step", "dit"),
    ("mdm", "denoiser", "nelbo", "dit"),
    ("max-coupling", "loo", "nelbo", "dit"),
    ("audm", "denoiser", "nelbo", "dit"),
    ("ar", None, None, "dit"),
]


@pytest.mark.parametrize(("method", "predicts", "objective", "kind"), METHODS)
def test_every_method_trains(
    method: str, predicts: str | None, objective: str | None, kind: str, tmp_path: Path
) -> None:
    base = tiny(tmp_path / "probe")
    network, optimiser = replace(base.network, kind=kind), replace(base.optimiser, lr=3e-3)  # type: ignore[arg-type]
    config = tiny(
        tmp_path / "run",
        method=method,
        predicts=predicts,
        objective=objective,
        network=network,
        optimiser=optimiser,
        max_steps=150,
    )
    untrained = validate(
        build_model(config, build_data(config.data)), build_bound(config), build_data(config.data), 64, 1
    )
    result = loop.train(config, False, Reporter(quiet=True))
    assert result.steps == 150
    assert result.figure.nats < untrained.nats - 0.05
    assert result.entropy is not None
    assert result.figure.nats > result.entropy - 5 * result.figure.standard_error
    loaded = load_model(tmp_path / "run" / "model")
    assert type(loaded.process) is type(build_model(config, build_data(config.data)).process)


def test_a_step_that_is_not_finite_is_skipped_and_five_in_a_row_stop_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bad step changes nothing; a run of them ends with the last good checkpoint intact."""
    calls = 0
    real = CrossEntropy.per_token

    def poisoned(self: CrossEntropy, *arguments: object) -> Tensor:
        nonlocal calls
        calls += 1
        losses = real(self, *arguments)  # type: ignore[arg-type]
        return losses * float("nan") if calls == 5 or calls > 20 else losses

    monkeypatch.setattr(CrossEntropy, "per_token", poisoned)
    said: list[str] = []
    reporter = Reporter(quiet=True)
    monkeypatch.setattr(reporter, "say", said.append)
    base = tiny(tmp_path / "run")
    config = tiny(tmp_path / "run", max_steps=100, run=replace(base.run, checkpoint_every=10))
    with pytest.raises(ValueError, match="not finite 5 times in a row, last at step 24"):
        loop.train(config, False, reporter)
    assert [sentence.split(":")[0] for sentence in said] == [f"step {step}" for step in (4, 20, 21, 22, 23, 24)]
    newest = checkpoints(tmp_path / "run" / "checkpoints")[0]
    assert newest.name == "step_000000020"
    assert damage(newest) is None
    assert all(value.isfinite().all() for value in read_checkpoint(newest).tensors["model"].values())


def test_a_text_run_carries_its_tokenizer_and_writes_tensorboard_events(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    (tmp_path / "text.txt").write_text("the loom weaves the warp and the weft\n" * 200)
    base = tiny(tmp_path / "run")
    data = replace(base.data, kind="text", path=str(tmp_path / "text.txt"), length=16)
    run = replace(base.run, tensorboard=True)
    loop.train(
        tiny(tmp_path / "run", data=data, run=run, method="mdm", predicts=None, objective=None), False, Reporter()
    )
    about = json.loads((tmp_path / "run" / "model" / "config.json").read_text())["about"]
    assert "adefhlmnoprstvw" in json.dumps(about["tokenizer"])
    assert list((tmp_path / "run").glob("events.out.tfevents*"))


def test_a_batch_that_cannot_be_divided_is_named(tmp_path: Path) -> None:
    base = tiny(tmp_path / "run")
    config = tiny(tmp_path / "run", optimiser=replace(base.optimiser, accumulate=3))
    with pytest.raises(ValueError, match=r"batch must be a multiple of processes x accumulate = 3, got 8"):
        loop.train(config, False, Reporter(quiet=True))


def test_a_rate_that_follows_the_clock_is_that_of_the_first_process(tmp_path: Path) -> None:
    base = tiny(tmp_path)
    run = object.__new__(loop._Run)
    run.config = tiny(
        tmp_path, max_steps=None, max_minutes=1.0, optimiser=replace(base.optimiser, lr=1.0, decay="linear")
    )
    run.started, run.fabric = time.monotonic(), SimpleNamespace(broadcast=lambda own: 0.75)
    assert run._rate(1000) == 0.25
