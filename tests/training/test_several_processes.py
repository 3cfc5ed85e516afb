"""Real runs of several processes: the same curve, weights, averages, moments and figures as one process."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.training.helpers import TINY, finish, launcher, losses, start, tiny, weights
from tokenloom.training.build import build_bound, build_data, build_model
from tokenloom.training.checkpoint import read_checkpoint
from tokenloom.training.validation import CHUNK, Workers, validate

STRATEGIES = ["ddp", "fsdp"]
CLIPPED = [*TINY, "--network.depth", "2", "--optimiser.accumulate", "2", "--optimiser.clip", "0.3"]


def figures(folder: Path) -> list[tuple[int, float, float]]:
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        (record["step"], record["valid_nats"], record["valid_standard_error"])
        for record in records
        if "valid_nats" in record
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 steps of one process, validated on three chunks of which the last is not full."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    finish(start(*CLIPPED, "--max-steps", "60", "--run.valid-rows", "150", "--out", str(folder)))
    return folder


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_processes_are_the_same_run_as_one(strategy: str, alone: Path, tmp_path: Path) -> None:
    """Gradients are clipped at every step, so a norm of a part of them would show in Adam's moments."""
    run = tmp_path / "run"
    options = ["--max-steps", "60", "--run.valid-rows", "150", "--run.strategy", strategy]
    finish(start(*CLIPPED, *options, "--out", str(run), processes=2))
    one, two = losses(alone), losses(run)
    assert list(one) == list(two)
    assert len(one) >= 6
    for step, loss in one.items():
        assert two[step] == pytest.approx(loss, rel=1e-5)
    first, second = (read_checkpoint(folder / "checkpoints" / "step_000000060") for folder in (alone, run))
    torch.testing.assert_close(second.tensors, first.tensors, rtol=1e-3, atol=1e-5)
    assert second.state.keys() == first.state.keys()
    assert second.state["averaged"] == 60


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_validation_figure_does_not_depend_on_the_number_of_processes(
    strategy: str, alone: Path, tmp_path: Path
) -> None:
    """Resumed at its end a run takes no step and validates the same weights again: equal to the last digit."""
    again = tmp_path / "again"
    shutil.copytree(alone, again)
    finish(start("--resume", str(again), "--run.strategy", strategy, processes=2))
    first, second = figures(again)
    assert second == first
    assert weights(again, 60) == weights(alone, 60)
    name = Path("model") / "model.safetensors"
    assert (again / name).read_bytes() == (alone / name).read_bytes()


def test_a_resumed_run_in_parts_is_bit_identical_to_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, half = tmp_path / "whole", tmp_path / "half"
    options = [*CLIPPED, "--run.strategy", "fsdp", "--network.dropout", "0.1"]
    finish(start(*options, "--max-steps", "40", "--out", str(whole), processes=2))
    finish(start(*options, "--max-steps", "20", "--out", str(half), processes=2))
    finish(start("--resume", str(half), "--max-steps", "40", processes=2))
    assert weights(half, 40) == weights(whole, 40)


def test_each_of_two_processes_holds_half(tmp_path: Path) -> None:
    """Of parameters, averages and moments; tensors whose first side is odd differ by a row."""
    command = [*launcher(2), "-m", "tests.training.halves", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    shares = [float(line.split()[-1]) for line in done.stdout.splitlines() if "holds" in line]
    assert len(shares) == 6, done.stderr[-3000:]
    assert shares == pytest.approx([0.5] * 6, abs=0.02)


@pytest.mark.parametrize("rows", [150, 10])
def test_processes_score_different_rows_and_together_all(rows: int, tmp_path: Path) -> None:
    config = tiny(tmp_path)
    data = build_data(config.data)
    model, seen = build_model(config, data), []

    def record(totals: Tensor) -> Tensor:
        seen.append(totals.clone())
        return totals

    whole = validate(model, build_bound(config), data, rows, 1)
    for rank in range(3):
        validate(model, build_bound(config), data, rows, 1, Workers(rank, 3, record))
    scored = torch.stack(seen) != 0
    assert scored.sum(0).eq(1).all()
    assert scored.sum(1).tolist() == [min(CHUNK, max(0, rows - CHUNK * rank)) for rank in range(3)]
    assert validate(model, build_bound(config), data, rows, 1, Workers(0, 3, lambda _: sum(seen))) == whole  # type: ignore[arg-type, return-value]
