"""Samples drawn during a run: the right figures, in every log, and a training that does not notice them."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.helpers import Shell
from tests.training.helpers import TINY, losses, records, tiny, train, weights
from tokenloom.cli.observing import observer_of
from tokenloom.data.text import TextSource
from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.evaluation.judges import load_judge, rate
from tokenloom.models.store import load_model
from tokenloom.samplers.sampler import Sampler
from tokenloom.sudoku.data import SudokuSource
from tokenloom.training import loop
from tokenloom.training.config import TrainConfig
from tokenloom.training.reporting import Reporter

PARTS: dict[str, Any] = {"network": {"dropout": 0.1}, "optimiser": {"lr": 0.1, "ema": 0.999}}
RUN = {"valid_rows": 8, "samples": 20, "sample_steps": 4}


def watched(config: TrainConfig, resume: bool = False) -> list[dict[str, Any]]:
    """Train, and return the lines of samples."""
    loop.train(config, resume, Reporter(), observer_of(config))
    return [line for line in records(Path(config.out or "")) if "samples" in line]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A run of six steps that draws twice, judged by the exact law."""
    out = tmp_path_factory.mktemp("watched") / "run"
    return out, watched(tiny(out, max_steps=6, **PARTS, run=RUN | {"sample_every": 3, "judge": "oracle"}))


def test_a_training_does_not_notice_its_samples(whole: tuple[Path, list[dict[str, Any]]], tmp_path: Path) -> None:
    plain = tiny(tmp_path / "plain", max_steps=6, **PARTS, run=RUN)
    train(plain, reporter=Reporter())
    assert weights(tmp_path / "plain", 6) == weights(whole[0], 6)
    assert losses(tmp_path / "plain") == losses(whole[0])
    assert not any("samples" in line for line in records(tmp_path / "plain"))  # off by default


def test_the_figures_are_those_of_the_samples_of_the_averaged_weights(whole: tuple[Path, list[dict[str, Any]]]) -> None:
    out, lines = whole
    assert [line["step"] for line in lines] == [3, 6]
    model, source = load_model(out / "model"), tiny(out).data
    rows = RowGenerators.spawn(derive_seed(1, "samples"), 20)
    tokens = Sampler(steps=4).run(model, 20, generator=rows).tokens
    expected = rate(load_judge("oracle", source), tokens, source.load().decode)
    assert lines[1]["sample_perplexity"] == pytest.approx(expected.perplexity, rel=1e-6)
    assert lines[1]["sample_entropy"] == pytest.approx(expected.entropy, rel=1e-6)
    assert lines[1]["samples"] == [source.load().decode.shown(row) for row in tokens[:4].tolist()]


def test_a_resumed_run_draws_the_same_samples(whole: tuple[Path, list[dict[str, Any]]], tmp_path: Path) -> None:
    options: dict[str, Any] = PARTS | {"run": RUN | {"sample_every": 3, "judge": "oracle"}}
    first = watched(tiny(tmp_path / "run", max_steps=4, **options))
    lines = watched(tiny(tmp_path / "run", max_steps=6, **options), resume=True)
    assert len(first) == 1
    assert lines == whole[1]
    assert weights(tmp_path / "run", 6) == weights(whole[0], 6)


def test_puzzles_are_completed_and_their_solve_rate_is_logged(tmp_path: Path) -> None:
    data = SudokuSource(side=4, givens=(15, 15), rows=40)  # one cell is left: a guess solves a quarter
    [line] = watched(tiny(tmp_path / "run", data=data, max_steps=1, run=RUN | {"sample_every": 1, "samples": 40}))
    assert 0.05 < line["sample_solve_rate"] < 0.6
    assert line["sample_violations"] == pytest.approx(3 * (1 - line["sample_solve_rate"]))


def test_samples_are_shown_in_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensorboard = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("the loom weaves the warp and the weft\n" * 200)
    data = TextSource(path=str(tmp_path / "text.txt"), length=16)
    run = RUN | {"tensorboard": True, "sample_every": 2, "samples": 2}
    [line] = watched(tiny(tmp_path / "run", data=data, method="mdm", max_steps=2, run=run))
    assert all(isinstance(text, str) for text in line["samples"])
    events = tensorboard.EventAccumulator(str(tmp_path / "run")).Reload()
    assert events.Scalars("sample_entropy")[0].value == pytest.approx(line["sample_entropy"])
    assert line["samples"][0].split()[0] in str(events.Tensors("samples/text_summary")[0].tensor_proto.string_val[0])


def test_what_cannot_be_judged_is_refused_before_the_run_and_a_failure_does_not_end_it(
    tmp_path: Path, shell: Shell
) -> None:
    run = [*TINY, "--max-steps", "2", "--out", str(tmp_path / "run")]
    assert "which is not given; give both" in shell.refusal("train", *run, "--run.judge", "oracle")
    assert "--run.sample-every must be at least 1, got 0" in shell.refusal("train", *run, "--run.sample-every", "0")
    config = tiny(tmp_path / "run", max_steps=2, run=RUN | {"sample_every": 1})

    def broken(*_: Any) -> dict[str, Any]:
        raise ValueError("the judge is asleep")

    result = loop.train(config, False, Reporter(), broken)
    assert result is not None
    assert result.steps == 2
    assert torch.isfinite(torch.tensor(result.figures["uniform"].per_token))
