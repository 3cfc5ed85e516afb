"""The stored comparison of grids: what the docs tell of it, and that the script measures as it did."""

import json
from pathlib import Path
from typing import Any

import pytest

import tokenloom as tl
from benchmarks import bench_grids
from benchmarks.bench_correctors import seeded

STORED: dict[str, Any] = json.loads((Path(bench_grids.__file__).parent / "results" / "grids.json").read_text())
IN_DOUBT = [name for name, make in bench_grids.PROCESSES.items() if not make().reveals]


def figure(what: str, process: str, steps: int, grid: str) -> float:
    wanted = {"process": process, "steps": steps, "grid": grid}
    (row,) = (row for row in STORED["runs"] if wanted.items() <= row.items())
    return float(row[what])


def test_processes_in_doubt_are_those_of_the_docs() -> None:
    assert sorted(IN_DOUBT) == ["Hybrid", "Interpolating", "MaxCoupling", "Uniform"]


@pytest.mark.parametrize("process", bench_grids.PROCESSES)
def test_auto_is_never_worse_than_the_uniform_grid_for_neighbours_and_nats(process: str) -> None:
    """Beyond chance, which is 0.003 in both; where tokens are revealed, power:1.5 is."""
    for steps in bench_grids.BUDGETS:
        for what in ("triples", "nats"):
            uniform, power = (figure(what, process, steps, grid) for grid in ("uniform", "power:1.5"))
            assert power < uniform + 0.003 if process in IN_DOUBT else power > uniform - 0.003


@pytest.mark.parametrize("process", [name for name, make in bench_grids.PROCESSES.items() if make().tight])
def test_a_fitted_grid_is_never_worse_than_the_default_for_neighbours_and_nats(process: str) -> None:
    """Beyond chance: it is kept only where it lowers a bound that is tight."""
    for steps in bench_grids.BUDGETS:
        for what in ("triples", "nats"):
            default = "power:1.5" if process in IN_DOUBT else "uniform"
            assert figure(what, process, steps, "fitted") < figure(what, process, steps, default) + 0.003


@pytest.mark.parametrize(("few", "many"), bench_grids.SAVED)
@pytest.mark.parametrize("what", ["triples", "nats"])
def test_auto_saves_a_quarter_of_the_evaluations(what: str, few: int, many: int) -> None:
    """Chance is 0.0005 in triples and 0.001 in nats, for 64,000 sequences of the same seeds."""
    found = {(each["grid"], each["steps"]): each[what] for each in STORED["savings"]}
    assert found["auto", few] < found["uniform", many] < found["uniform", few]


def test_the_script_measures_what_is_stored() -> None:
    """Exact draws, with the seed of the script."""
    stationary, transition = bench_grids.chain()
    model = tl.MarkovOracle(stationary, transition, bench_grids.LENGTH, tl.Uniform(bench_grids.TOKENS))
    assert bench_grids.measured(model.sample(STORED["rows"], seeded(1))) == pytest.approx(STORED["exact"], abs=1e-9)
