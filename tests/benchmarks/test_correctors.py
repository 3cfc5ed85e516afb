"""The stored comparison of correctors: what the script computes again, and the ranking that the docs tell."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import bench_correctors

STORED: dict[str, Any] = json.loads(
    (Path(bench_correctors.__file__).parent / "results" / "correctors.json").read_text()
)


def mixing(corrector: str, tokens: int) -> list[float]:
    (row,) = (row for row in STORED["mixing"] if (row["corrector"], row["tokens"]) == (corrector, tokens))
    found: list[float] = row["distances"]
    return found


def distance(part: str, corrector: str, budget: int) -> float:
    (row,) = (row for row in STORED[part]["runs"] if (row["corrector"], row["budget"]) == (corrector, budget))
    return float(row["distance"])


def test_enumerated_distances_are_those_that_are_stored() -> None:
    every = [
        bench_correctors.laws(bench_correctors.noised(bench_correctors.random_table(4, 3, seed))) for seed in range(5)
    ]
    for name in every[0]:
        mean = torch.tensor([found[name] for found in every]).mean(0)
        assert mean.tolist() == pytest.approx(mixing(name, 4), abs=1e-6), name


def test_balanced_mixes_faster_by_its_mean_cost_and_slower_by_its_largest() -> None:
    for tokens, _ in bench_correctors.SIZES:
        plain, liu, jumps, capped = (
            mixing(name, tokens)
            for name in ("random-scan", "random-scan:metropolised=true", "balanced:g=max", bench_correctors.CAPPED)
        )
        assert all(fast < slow + 1e-3 for fast, slow in zip(jumps[2:], liu[2:], strict=True))  # 4 and 8 evaluations
        assert all(fast < slow for fast, slow in zip(plain, capped, strict=True))
        assert all(fast < slow + 1e-3 for fast, slow in zip(liu, plain, strict=True))


def test_a_call_of_balanced_keeps_the_law_and_is_the_exponential_of_its_rates_where_no_path_returns() -> None:
    law = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    rates = torch.maximum(law / law[:, None], torch.ones(())) - torch.eye(3, dtype=torch.float64)
    start = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    flow = rates - torch.diag(rates.sum(1))
    exact = start @ torch.matrix_exp(0.7 * flow)
    torch.testing.assert_close(bench_correctors.balanced(start, rates, 0.7, 40), exact, rtol=0, atol=1e-12)
    none = torch.exp(-0.7 * rates.sum(1))  # of these paths alone the law after no jump is left
    torch.testing.assert_close(bench_correctors.balanced(start, rates, 0.7, 0), start * none + start * (1 - none))
    for steps in (0, 1, 3):
        torch.testing.assert_close(bench_correctors.balanced(law, rates, 0.7, steps), law, rtol=0, atol=1e-12)


def test_runs_end_near_the_law_only_beside_correctors_that_keep_it_and_best_beside_none() -> None:
    for row in STORED["table"]["runs"][2:]:
        kept = (
            row["corrector"].split(":")[0] in ("scan", "random-scan", "balanced") and "parallel" not in row["corrector"]
        )
        if kept or row["corrector"] == "informed:by=random":
            assert row["distance"] < 0.025
        else:
            assert row["distance"] > 0.025
    for budget in bench_correctors.BUDGETS:
        others = [distance("chain", name, budget) for name in bench_correctors.ON_CHAIN if name != "none"]
        assert distance("chain", "none", budget) < min(others)


@pytest.mark.usefixtures("as_a_user")
def test_a_small_run_measures_every_corrector(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {
        "ON_CHAIN": ("none", "balanced"),
        "ON_TABLE": ("informed",),
        "SIZES": ((2, 2),),
        "BUDGETS": (4,),
        "STEPS": 3,
    }
    for name, value in small.items():
        monkeypatch.setattr(bench_correctors, name, value)
    bench_correctors.main(table_rows=4, chain_rows=2)
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == STORED.keys()
    assert found["chain"]["entropy"] == pytest.approx(STORED["chain"]["entropy"])
