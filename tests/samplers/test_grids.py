"""Where evaluations are spent: the times of each grid, and what `auto` gains."""

import itertools

import pytest
import torch

import tokenloom as tl
from tests.samplers.helpers import CELLS, Cell, process_of
from tokenloom.data.markov import markov_chain
from tokenloom.samplers.grids import grid_times

SCHEDULES = [
    tl.LinearSchedule(),
    tl.LinearSchedule(eps=0.0),
    tl.CosineSchedule(),
    tl.PolynomialSchedule(power=3),
    tl.GeometricSchedule(),
]
COUNTS = [1, 2, 7, 1000]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(("grid", "count"), list(itertools.product(["power:0.5", "power:1.5", "power:3"], COUNTS)))
def test_a_power_of_what_is_left_is_lost_whatever_the_schedule(schedule: tl.Schedule, grid: str, count: int) -> None:
    times = grid_times(grid, count, tl.Uniform(5, schedule=schedule))
    u = torch.linspace(1, 0, count + 1, dtype=torch.float64)
    assert (float(times[0]), float(times[-1])) == (1, 0)
    assert bool((times.diff() < 0).all())
    lost = schedule.lost(times) / schedule.lost(times[:1])
    torch.testing.assert_close(lost, u ** float(grid.split(":")[1]), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kind", CELLS)
def test_auto_is_denser_near_0_exactly_where_no_token_reveals_x_0(kind: Cell) -> None:
    process = process_of(kind, 4, 2)
    u = torch.linspace(1, 0, 9, dtype=torch.float64)
    torch.testing.assert_close(grid_times("auto", 8, process), u if process.reveals else u**1.5)
    heuristic = tl.Sampler.parse("dndm", steps=8).times(process)  # which counts its own steps
    torch.testing.assert_close(heuristic, u)


def nats_above_the_entropy(grid: str, steps: int, process: tl.Process, rows: int = 2_000) -> float:
    """Of samples of an exact model in nats per token: what independent draws of the positions cost."""
    model = tl.MarkovOracle(*markov_chain(6, seed=0), 24, process)
    tokens = tl.sample(model, rows, steps=steps, grid=grid, generator=torch.Generator().manual_seed(4))
    return float(-model.log_likelihood(tokens).mean() - model.entropy()) / 24


@pytest.mark.parametrize(("few", "many"), [(8, 11), (16, 22)])
def test_auto_is_better_than_the_uniform_grid_with_three_eighths_more_evaluations(few: int, many: int) -> None:
    """About 0.053 against 0.066, and 0.016 against 0.025; 8,000 sequences measure such a figure to 0.003."""
    process = tl.Uniform(6)
    assert nats_above_the_entropy("auto", few, process, 8_000) < nats_above_the_entropy("uniform", many, process, 8_000)


@pytest.mark.parametrize("steps", [8, 16])
def test_auto_halves_what_independent_draws_cost_under_the_maximal_coupling(steps: int) -> None:
    """0.053 against 0.108, and 0.017 against 0.034; 2,000 sequences measure such a figure to 0.005."""
    process = tl.MaxCoupling(6)
    assert nats_above_the_entropy("auto", steps, process) < 0.75 * nats_above_the_entropy("uniform", steps, process)


@pytest.mark.parametrize("kind", [tl.Masked, tl.AbsorbingUniform])
def test_where_tokens_are_revealed_the_uniform_grid_is_the_better_one(kind: Cell) -> None:
    """0.165 against 0.205, and 0.150 against 0.175."""
    process = kind(6)
    assert nats_above_the_entropy("auto", 8, process) < nats_above_the_entropy("power:1.5", 8, process)
