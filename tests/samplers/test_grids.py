"""Where evaluations are spent: the times of each grid, and what `auto` gains."""

import itertools

import pytest
import torch

import tokenloom as tl
from tests import brute
from tests.samplers.helpers import CELLS, Cell, process_of
from tokenloom.data.markov import markov_chain
from tokenloom.nn import DiT, TransformerConfig
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
    model = tl.Oracle(brute.random_p0(4, 2), process)
    torch.testing.assert_close(tl.Sampler(steps=8).times(model), grid_times("auto", 8, process))
    heuristic = tl.Sampler.parse("dndm", steps=8).times(model)  # which counts its own steps
    torch.testing.assert_close(heuristic, u)


def information_of_uniform_noise(vocab_size: int, alpha: float) -> float:
    """I(x_0; x_t) of one uniform token, summed over both."""
    joint = (alpha * torch.eye(vocab_size, dtype=torch.float64) + (1 - alpha) / vocab_size) / vocab_size
    return float((joint * (joint * vocab_size**2).log()).sum())


@pytest.mark.parametrize("vocab_size", [2, 8, 500])
def test_information_falls_in_equal_shares_under_uniform_noise(vocab_size: int) -> None:
    """The mean over draws and the lines between levels are within 2% of the whole."""
    for process in (tl.Uniform(vocab_size), tl.MaxCoupling(vocab_size)):
        alphas = process.alpha(grid_times("information", 8, process)).tolist()
        shares = torch.tensor([information_of_uniform_noise(vocab_size, min(alpha, 1 - 1e-12)) for alpha in alphas])
        torch.testing.assert_close(shares / shares[-1], torch.linspace(0, 1, 9), atol=0.02, rtol=0)


@pytest.mark.parametrize("process", [tl.Masked(7), tl.MaskedUniform(7), tl.AbsorbingUniform(5000)])
def test_information_is_lost_at_an_even_pace_where_tokens_are_revealed(process: tl.Process) -> None:
    times = grid_times("information", 10, process)
    torch.testing.assert_close(times, torch.linspace(1, 0, 11, dtype=torch.float64), atol=0.012, rtol=0)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("count", COUNTS)
def test_information_falls_from_1_to_0_under_every_process(kind: Cell, count: int) -> None:
    times = grid_times("information", count, process_of(kind, 4, 2))
    assert (float(times[0]), float(times[-1])) == (1, 0)
    assert bool((times.diff() < 0).all())


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ("powder:2", "no grid 'powder:2'"),
        ("power", "'power'"),
        ("power:11", "'power:11'"),
        ("fitted:2", "takes no number.*'fitted:2'"),
    ],
)
def test_a_grid_that_there_is_not_gets_a_sentence(grid: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tl.Sampler(grid=grid)


def test_times_are_those_of_a_model() -> None:
    with pytest.raises(ValueError, match="model must be a Model, got Process"):
        tl.Sampler().times(tl.Uniform(4))  # type: ignore[arg-type]


def network_with(stored: object) -> tl.DiffusionModel:
    """A network that carries grids."""
    network = DiT(TransformerConfig(vocab_size=4, num_states=4, length=2, width=8, depth=1, heads=1))
    model = tl.DiffusionModel(network, tl.Uniform(4, schedule=tl.LinearSchedule(eps=0.0)), predicts=tl.LeaveOneOut)
    model.describe(grids={"uniform": stored})
    return model


@pytest.mark.parametrize(
    "stored",
    [
        {"4": [1, 0.5, 0.6, 0.2, 0]},
        {"4": [1, 0.5, 0]},
        {"4": [0.9, 0.5, 0.3, 0.2, 0]},
        {"4": [1, 0.5, 0.3, 0.2, 0.1]},
        {"4": "fast"},
        {"four": [1, 0]},
        {"0": [1]},
        {"9" * 5000: [1, 0]},
        {"4": [1, 0.8, float("nan"), 0.2, 0]},
        [1, 0],
        {},
    ],
    ids=lambda stored: str(stored)[:40],
)
def test_a_stored_grid_that_is_none_gets_a_sentence(stored: object) -> None:
    model = network_with(stored)
    with pytest.raises(ValueError, match=r"(?i)fit it again|fit them again"):
        tl.Sampler(steps=4).times(model)


def test_between_numbers_of_steps_the_nearest_stored_grid_is_read_as_a_function() -> None:
    model = network_with({"4": [1, 0.6, 0.3, 0.1, 0], "16": [1 - i / 16 for i in range(17)]})
    at = {steps: tl.Sampler(steps=steps).times(model).tolist() for steps in (1, 2, 6, 8, 128)}
    assert at[1] == [1, 0]
    assert at[2] == pytest.approx([1, 0.3, 0])
    assert at[6] == pytest.approx([1, 0.6 + 0.4 / 3, 0.6 - 0.3 / 3, 0.3, 0.3 - 0.2 * 2 / 3, 0.1 * 2 / 3, 0])
    assert at[128] == pytest.approx([1 - i / 128 for i in range(129)])


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
