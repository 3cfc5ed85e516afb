"""Grids on trained networks: what is stored, and a small run."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_trained_grids
from tests.cli.helpers import Shell

RESULTS = Path(bench_trained_grids.__file__).parent / "results"
STORED: dict[str, Any] = json.loads((RESULTS / "trained_grids.json").read_text())


def test_a_gap_is_taken_at_equal_entropy() -> None:
    uniform = [{"entropy": 1.0, "nats_per_token": 1.0}, {"entropy": 2.0, "nats_per_token": 3.0}]
    points = [{"entropy": 1.5, "nats_per_token": 1.5}, {"entropy": 9.0, "nats_per_token": 0.0}]
    assert bench_trained_grids.gap(points, uniform) == pytest.approx(0.5)
    assert bench_trained_grids.gap(points[1:], uniform) is None
    assert bench_trained_grids.gap(uniform, uniform) == 0


def test_a_fitted_grid_has_the_lowest_bound_of_every_network_that_is_stored() -> None:
    for part in STORED.values():
        for found in part["bounds"]:
            assert found["bounds"]["fitted"] <= min(found["bounds"].values()) + 0.01


@pytest.mark.usefixtures("as_a_user")
def test_a_small_run_measures_every_grid(untrained: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"TEXT_BUDGETS": (2,), "SUDOKU_BUDGETS": (2,), "GIVENS": (5, 10), "MINIMAL": (0, 16)}
    for name, value in small.items():
        monkeypatch.setattr(bench_trained_grids, name, value)
    bench_trained_grids.main("oracle", str(untrained), "sudoku4-udm-loo", rows=4, samples=4, puzzles=2)
    found = json.loads(shell.capsys.readouterr().out)
    assert [curve["grid"] for curve in found["text"]["curves"]] == list(bench_trained_grids.GRIDS)
    assert [rate["grid"] for rate in found["sudoku"]["rates"]] == list(bench_trained_grids.GRIDS)
