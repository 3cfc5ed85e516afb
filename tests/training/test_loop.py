"""The loop from inside: what it trains, skips, keeps, carries and refuses."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.training.helpers import TINY, losses, records, tiny, train
from tokenloom.data.text import TextSource
from tokenloom.models.checkpoint import checkpoints, read_checkpoint
from tokenloom.models.store import load_model
from tokenloom.objectives import CrossEntropy
from tokenloom.objectives.likelihood import Likelihood
from tokenloom.training import loop
from tokenloom.training.batches import validate
from tokenloom.training.build import GIVEN, build_model, method_in
from tokenloom.training.config import TrainConfig
from tokenloom.training.methods import SHORT, methods
from tokenloom.training.reporting import Reporter
from tokenloom.training.setup import launch

METHODS = [
    ("udm", "loo", "ce", "dit"),
    ("udm", "loo", "nelbo", "dit"),
    ("udm", "denoiser", "ce", "dit"),
    ("udm", "denoiser", "nelbo-ce", "dit"),
    ("udm", "score", "score-entropy", "dit"),
    ("udm", "loo", "crm", "hollow"),
    ("udm", "loo", "finite-step", "dit"),
    ("mdm", "denoiser", "nelbo", "dit"),
    ("max-coupling", "loo", "nelbo", "dit"),
    ("audm", "denoiser", "nelbo", "dit"),
    ("ar", None, None, "dit"),
]
TRAINED = {name for row in METHODS for name in (row[0], SHORT.get(row[0]))}
OTHERS = [(method, None, None, "dit") for method in methods() if method not in TRAINED]


@pytest.mark.parametrize(("method", "predicts", "objective", "kind"), [*METHODS, *OTHERS])
def test_every_method_trains(
    method: str, predicts: str | None, objective: str | None, kind: str, tmp_path: Path
) -> None:
    """The figure falls on the same states, and stays above the entropy but for 5 standard errors (false alarm 6e-7)."""
    config = tiny(
        tmp_path / "run",
        method=method,
        predicts=predicts,
        objective=objective,
        network={"kind": kind},
        optimiser={"lr": 3e-2, "batch": 16, "ema": 0.9},
        max_steps=8,
    )
    data = config.data.load()
    untrained = build_model(config, data)
    parts = method_in(config, data.vocab_size, data).processes
    before = {part.name: validate(untrained.with_process(part), data, 64, 1) for part in parts}
    result = train(config)
    assert result.steps == 8
    assert result.figures.keys() == before.keys()
    for name, figure in result.figures.items():
        assert figure.per_token < before[name].per_token - 0.1
        assert result.entropy is not None
        assert figure.per_token > result.entropy - 5 * figure.per_token_error
    loaded = load_model(tmp_path / "run" / "model")
    assert loaded.process == untrained.process == parts[0]
    assert loaded.predicts is untrained.predicts
    assert loaded.about.step == 8
    assert (loaded.about.validation or {}).items() >= result.figures[parts[0].name].record().items()


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
        return losses * float("nan") if calls == 5 or calls > 10 else losses

    monkeypatch.setattr(CrossEntropy, "per_token", poisoned)
    said: list[str] = []
    reporter = Reporter(quiet=True)
    monkeypatch.setattr(reporter, "say", said.append)
    with pytest.raises(ValueError, match="not finite 5 times in a row, last at step 14"):
        train(tiny(tmp_path / "run", max_steps=100, run={"checkpoint_every": 5}), reporter=reporter)
    assert [sentence.split(":")[0] for sentence in said] == [f"step {step}" for step in (4, 10, 11, 12, 13, 14)]
    kept = checkpoints(tmp_path / "run" / "checkpoints")
    assert [path.name for path in kept] == ["step_000000010", "step_000000005"]
    assert all(value.isfinite().all() for value in read_checkpoint(kept[0]).tensors["model"].values())
    assert read_checkpoint(kept[1]).state["averaged"] == 4  # the fifth step changed nothing


def test_best_holds_the_best_and_model_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third figure is worse than the second, and the fourth, of a resumed run, worse than the best before it."""
    figures = [1.5, 0.5, 0.9, 0.7]

    def scripted(*arguments: Any) -> Likelihood:
        return replace(validate(*arguments), per_token=figures.pop(0))

    monkeypatch.setattr(loop, "validate", scripted)
    run, folder = {"validate_every": 2, "checkpoint_every": 2, "valid_rows": 8}, tmp_path / "run"
    train(tiny(folder, max_steps=4, run=run))
    second = read_checkpoint(folder / "checkpoints" / "step_000000004").tensors["ema"]
    train(tiny(folder, max_steps=8, run=run), resume=True)
    fourth = read_checkpoint(folder / "checkpoints" / "step_000000008").tensors["ema"]
    assert figures == []
    for name, step, figure, expected in (("best", 4, 0.5, second), ("model", 8, 0.7, fourth)):
        model = load_model(folder / name)
        assert (model.about.step, (model.about.validation or {})["per_token"]) == (step, figure)
        assert all(value.equal(expected[key]) for key, value in model.state_dict().items())


def test_a_run_in_mixed_precision_trains_validates_saves_and_samples(tmp_path: Path, shell: Shell) -> None:
    """The losses are those of 32 bits to two digits and no further; what is kept has 32 bits."""
    steps = ["--max-steps", "2", "--run.valid-rows", "8"]
    for precision in ("bf16-mixed", "32-true"):
        shell("train", *TINY, *steps, "--run.precision", precision, "--out", str(tmp_path / precision))
    mixed, full = losses(tmp_path / "bf16-mixed"), losses(tmp_path / "32-true")
    assert list(mixed) == list(full) == [1, 2]
    assert mixed != full
    assert list(mixed.values()) == pytest.approx(list(full.values()), rel=1e-2)
    figure, exact = (records(tmp_path / name)[-1]["valid_nats"] for name in ("bf16-mixed", "32-true"))
    assert figure == pytest.approx(exact, rel=2e-2)
    model = tl.load(tmp_path / "bf16-mixed")
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    drawn = shell.json("sample", str(tmp_path / "bf16-mixed"), "--num", "2", "--steps", "2")
    assert torch.tensor(drawn["tokens"]).shape == (2, 8)


def test_a_text_run_carries_its_tokenizer_and_writes_tensorboard_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("the loom weaves the warp and the weft\n" * 200)
    data = TextSource(path=str(tmp_path / "text.txt"), length=16)
    run = {"tensorboard": True, "valid_rows": 8}
    train(tiny(tmp_path / "run", data=data, run=run, method="mdm", max_steps=2), reporter=Reporter())
    model = tl.load(tmp_path / "run")
    assert model.decode(torch.tensor([model.encode("the warp")])) == ["the warp"]
    assert model.about.source == replace(data, given=GIVEN).record()
    assert list((tmp_path / "run").glob("events.out.tfevents*"))


def test_a_rate_that_follows_the_clock_is_that_of_the_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process has another clock: by that of the first 0.75 of the run are over, and it ends after two steps."""
    rates: list[float] = []
    ends, reporter = iter([False, False, True]), Reporter(quiet=True)

    def launch_elsewhere(config: TrainConfig) -> Any:
        fabric = launch(config)
        fabric.broadcast = lambda own: next(ends) if isinstance(own, bool) else 0.75
        return fabric

    monkeypatch.setattr(loop, "launch", launch_elsewhere)
    monkeypatch.setattr(reporter, "step", lambda step, loss, rate, tokens: rates.append(rate))
    optimiser = {"lr": 1e-3, "warmup": 0, "decay": "linear"}
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    train(tiny(tmp_path, max_steps=None, max_minutes=60.0, optimiser=optimiser), reporter=reporter)
    assert rates == pytest.approx([0.25e-3, 0.25e-3])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before  # as after every run
