"""Real runs of several processes: the same curve, weights, averages, moments and figures as one process."""

import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.training.helpers import finish, losses, records, start, tiny, weights
from tests.training.two_processes import ADAPTED, RUN, SAMPLED, STEPS, STRATEGIES
from tokenloom.cli import main
from tokenloom.models.checkpoint import read_checkpoint
from tokenloom.models.opening import load
from tokenloom.objectives.likelihood import Workers
from tokenloom.training.batches import VALIDATED, validate
from tokenloom.training.build import build_model


def figures(folder: Path) -> list[tuple[float, float, float]]:
    found = [record for record in records(folder) if "valid_nats" in record]
    return [(record["step"], record["valid_nats"], record["valid_standard_error"]) for record in found]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one process, validated on three chunks of which the last is not full, and those of two beside it."""
    folder = tmp_path_factory.mktemp("several")
    main(["train", *RUN, "--out", str(folder / "alone")])
    main(["train", *SAMPLED, "--out", str(folder / "sampled")])
    main(["train", "--from", str(folder / "alone"), *ADAPTED, "--out", str(folder / "adapted")])
    finish(start(sys.executable, "-m", "tests.training.two_processes", str(folder)))
    return folder


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_processes_are_the_same_run_as_one(strategy: str, runs: Path) -> None:
    """Gradients are clipped at every step, so a norm of a part of them would show in Adam's moments."""
    one, two = losses(runs / "alone"), losses(runs / strategy)
    assert list(one) == list(two) == [1, 2, 3]
    assert two == pytest.approx(one, rel=1e-5)
    first, second = (read_checkpoint(runs / name / "checkpoints" / f"step_{STEPS:09d}") for name in ("alone", strategy))
    torch.testing.assert_close(second.tensors, first.tensors, rtol=1e-3, atol=1e-5)
    assert second.state.keys() == first.state.keys()
    assert second.state["averaged"] == STEPS


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_adapters_of_two_processes_are_those_of_one(strategy: str, runs: Path) -> None:
    """Whole in the checkpoint and in the model, and nothing beside them."""
    first, second = (
        read_checkpoint(runs / name / "checkpoints" / "step_000000003") for name in ("adapted", f"adapted-{strategy}")
    )
    assert all("lora_" in name for name in first.tensors["model"])
    torch.testing.assert_close(second.tensors, first.tensors, rtol=1e-3, atol=1e-5)
    one, two = (load(runs / name).state_dict() for name in ("adapted", f"adapted-{strategy}"))
    torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_validation_figure_does_not_depend_on_the_number_of_processes(strategy: str, runs: Path) -> None:
    """Resumed at its end a run takes no step and validates the same weights again: equal to the last digit."""
    again = runs / f"{strategy}-again"
    first, second = figures(again)
    assert second == first
    assert weights(again, STEPS) == weights(runs / "alone", STEPS)
    name = Path("model") / "model.safetensors"
    assert (again / name).read_bytes() == (runs / "alone" / name).read_bytes()


def test_two_processes_log_the_samples_of_one(runs: Path) -> None:
    alone, two = (
        [record for record in records(runs / name) if "samples" in record] for name in ("sampled", "sampled-ddp")
    )
    assert [record["step"] for record in alone] == [1, 2]
    assert two == alone


def test_a_resumed_run_in_parts_is_bit_identical_to_an_uninterrupted_one(runs: Path) -> None:
    assert weights(runs / "half", 4) == weights(runs / "whole", 4)


@pytest.mark.parametrize(("strategy", "expected"), [("ddp", 1.0), ("fsdp", 0.5)])
def test_each_of_two_processes_holds_all_or_half(strategy: str, expected: float, runs: Path) -> None:
    """Of parameters, moments and averages; tensors whose first side is odd differ by a row."""
    for rank in (0, 1):
        shares = [float(word) for word in (runs / f"shares-{strategy}-{rank}.txt").read_text().split()]
        assert shares == pytest.approx([expected] * 3, abs=0.02)


@pytest.mark.parametrize("rows", [150, 10])
def test_processes_score_different_rows_and_together_all(rows: int, tmp_path: Path) -> None:
    config = tiny(tmp_path)
    data = config.data.load()
    model = build_model(config, data)
    seen: list[Tensor] = []

    def record(totals: Tensor) -> Tensor:
        seen.append(totals.clone())
        return totals

    whole = validate(model, data, rows, 1)
    for rank in range(3):
        validate(model, data, rows, 1, Workers(rank, 3, record))
    terms = len(seen) // 3  # states with lost tokens, without, and the prior term
    assert terms == 3
    summed = [sum(seen[term::terms]) for term in range(terms)]
    scored = torch.stack(seen[::terms]) != 0
    assert scored.sum(0).eq(1).all()
    assert scored.sum(1).tolist() == [min(VALIDATED, max(0, rows - VALIDATED * rank)) for rank in range(3)]
    together = validate(model, data, rows, 1, Workers(0, 3, lambda totals: summed.pop(0)))  # type: ignore[arg-type, return-value]
    assert together.record() == whole.record()
    assert torch.equal(together.per_sequence, whole.per_sequence)
