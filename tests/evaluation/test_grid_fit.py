"""Grids fitted to a model: what a step costs, the cheapest way through it, and what is kept."""

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.cli.helpers import Shell
from tests.laws.helpers import EXACT, close
from tests.training.helpers import tiny, train
from tokenloom.cells import PROCESSES as REGISTERED
from tokenloom.data.markov import markov_chain
from tokenloom.evaluation.grid_fit import (
    averaged_paths,
    check_fits,
    fit_grids,
    path_costs,
    shortest_paths,
    step_cost,
    step_costs,
)
from tokenloom.posteriors import carry_over
from tokenloom.samplers.grids import grid_times
from tokenloom.state import Noisy

K, L = 3, 2
UNIGRAMS = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
STRATA = [torch.full((K**L, L), (i + 0.5) / 30, dtype=torch.float64) for i in range(30)]
"""Uniform numbers that draw a noise of thirds, or of these unigrams, exactly in proportion."""
LEFT_TO_RIGHT: Callable[..., tl.Process] = REGISTERED["left-to-right"]
PROCESSES = {
    "uniform": tl.Uniform(K, schedule=EXACT),
    "unigrams": tl.Interpolating(K, pi=UNIGRAMS, schedule=EXACT),
    "maximal": tl.MaxCoupling(K, schedule=EXACT),
    "absorbing": tl.AbsorbingUniform(K, schedule=EXACT),
    "masked": tl.Masked(K, schedule=EXACT),
}


@pytest.fixture(autouse=True)
def few_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coarse table, for speed."""
    monkeypatch.setattr("tokenloom.evaluation.grid_fit.LEVELS", 24)


def chain_model(process: tl.Process, length: int = 12) -> tl.MarkovOracle:
    return tl.MarkovOracle(*markov_chain(K, seed=1), length, process)


def kl(process: tl.Process, noisy: Noisy, s: Tensor, x_0: Tensor, posterior: tl.posteriors.OverTokens) -> Tensor:
    """KL( q(x_s | x_0, x_t) || p(x_s | x_t) ), summed over the whole vocabulary."""
    exact = process.bridge(noisy, s, x_0).log_probs()
    model = process.bridge(noisy, s, posterior).log_probs()
    return torch.where(exact > -math.inf, exact.exp() * (exact - model), 0).sum(-1)


@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.LeaveOneOut])
@pytest.mark.parametrize("name", PROCESSES)
def test_the_cost_of_a_step_is_the_divergence_of_its_two_laws(name: str, predicts: type[tl.Denoiser]) -> None:
    process = PROCESSES[name]
    x_0 = torch.tensor(list(itertools.product(range(K), repeat=L)))
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(len(x_0), L, K, generator=generator, dtype=torch.float64)
    for t, s in [(0.6, 0.3), (0.95, 0.05), (0.5, 0.0), (1.0, 0.4)]:
        noisy = process.corrupt(x_0, torch.full((len(x_0),), t, dtype=torch.float64), generator)
        revealed = process.evidence(noisy).isposinf()
        posterior = predicts(carry_over(logits, noisy.tokens, revealed) if predicts is tl.Denoiser else logits)
        end = torch.full((len(x_0),), s, dtype=torch.float64)
        found = step_cost(process, noisy, end, x_0, posterior, STRATA)
        close(found, kl(process, noisy, end, x_0, posterior), f"the cost of a step from {t} to {s}")


def test_steps_of_one_position_sum_to_the_entropy_whatever_the_grid() -> None:
    """One position has nothing to say to another, so no grid of an exact model loses anything."""
    process = tl.Uniform(K, schedule=EXACT)
    p_0 = torch.tensor([0.2, 0.7, 0.1], dtype=torch.float64)
    x_0 = torch.repeat_interleave(torch.arange(K), torch.tensor([400, 1400, 200])).unsqueeze(1)
    model, entropy = tl.Oracle(p_0, process), float(torch.special.entr(p_0).sum())
    for grid, steps in itertools.product(("uniform", "power:2"), (1, 3, 10)):
        costs = path_costs(model, x_0, None, grid_times(grid, steps, process), 0)
        error = float(costs.std()) / len(costs) ** 0.5
        assert abs(float(costs.mean()) - entropy) < 4 * error + 1e-9  # at most one in 10^4 a case


def test_the_cheapest_way_is_the_cheapest_of_all() -> None:
    costs = np.random.default_rng(0).uniform(size=(7, 7))
    costs[np.triu_indices(7)] = np.inf
    for count, path in shortest_paths(costs, 6).items():
        ways = [(6, *reversed(between), 0) for between in itertools.combinations(range(1, 6), count - 1)]
        cost = {way: sum(costs[t, s] for t, s in itertools.pairwise(way)) for way in ways}
        assert tuple(path) == min(cost, key=cost.__getitem__)


def test_ways_are_averaged_over_samples_of_the_rows() -> None:
    """Two kinds of rows, each of which wants another level in the middle: the average lies between."""
    costs = np.full((2, 4, 4), np.inf)
    costs[:, 3, 1:3], costs[:, 1:3, 0] = 1.0, 1.0
    costs[0, 3, 1], costs[1, 3, 2] = 0.0, 0.0
    (path,) = averaged_paths(costs, np.array([0, 0.25, 0.75, 1]), [2], seed=0)
    assert path[[0, -1]].tolist() == [1, 0]
    assert 0.3 < path[1] < 0.7


def test_given_positions_cost_nothing_and_do_not_count() -> None:
    model = chain_model(tl.Uniform(K, schedule=EXACT))
    x_0 = model.sample(40, torch.Generator().manual_seed(2))
    given = torch.zeros_like(x_0, dtype=torch.bool)
    given[:, :6] = True
    ends = torch.tensor([0.5, 0.0], dtype=torch.float64)
    found = step_costs(model, x_0, given, 1.0, ends, 0)
    assert found.shape == (40, 2)
    assert bool((step_costs(model, x_0, torch.ones_like(given), 1.0, ends, 0) == 0).all())
    assert 0 < float(found[:, 1].mean()) < 1.1  # nats per token that is not given


def test_a_table_does_not_depend_on_how_many_rows_are_measured_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = chain_model(tl.AbsorbingUniform(K, schedule=EXACT))
    x_0 = model.sample(9, torch.Generator().manual_seed(2))
    ends = torch.tensor([0.3, 0.0], dtype=torch.float64)
    whole = step_costs(model, x_0, None, 0.8, ends, 0)
    monkeypatch.setattr("tokenloom.evaluation.grid_fit.ELEMENTS", 2 * 12 * K)
    torch.testing.assert_close(step_costs(model, x_0, None, 0.8, ends, 0), whole)


@pytest.mark.parametrize("process", [tl.Uniform(6), tl.Masked(6)])
def test_a_fitted_grid_is_never_worse_than_the_default_on_sequences_of_a_third_kind(process: tl.Process) -> None:
    """By more than 0.003 nats per token; uniform times cost the uniform process 0.01 to 0.03 more."""
    model = tl.MarkovOracle(*markov_chain(6, seed=0), 24, process)
    draw = torch.Generator().manual_seed(3)
    shares = list[float]()
    found = fit_grids(model, model.sample(192, draw), None, 0, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    fresh = model.sample(512, draw)
    for each in found:
        kept = process.schedule.inverse_lost(
            process.schedule.lost(torch.ones(1, dtype=torch.float64)) * torch.tensor(each.levels, dtype=torch.float64)
        )
        kept[0], kept[-1] = 1, 0
        costs, default, uniform = (
            float(path_costs(model, fresh, None, grid, 7).mean())
            for grid in (
                kept,
                grid_times("auto", each.steps, process),
                grid_times("uniform", each.steps, process),
            )
        )
        assert costs < default + 0.003
        if not process.reveals:
            assert costs < uniform - 0.003
        assert (each.kept == "fitted") == (each.gain > 1.645 * each.error)


@pytest.mark.parametrize("process", [tl.MaxCoupling(K), LEFT_TO_RIGHT(K)])
def test_a_process_whose_bound_does_not_say_what_draws_best_is_refused(process: tl.Process) -> None:
    with pytest.raises(ValueError, match=r"bound of MaxCoupling|one after the other"):
        check_fits(process)


def test_few_sequences_are_refused() -> None:
    model = chain_model(tl.Uniform(K))
    with pytest.raises(ValueError, match="4 sequences, got 3"):
        fit_grids(model, model.sample(3), None)


def test_a_fitted_grid_is_stored_with_the_model_and_used(tmp_path: Path, shell: Shell) -> None:
    train(tiny(tmp_path / "run"))
    printed = " ".join(
        shell("fit-grid", str(tmp_path / "run"), "--sequences", "16", "--to", str(tmp_path / "to")).out.split()
    )
    assert "on 8 sequences" in printed
    assert "No fitted grid beats the default" in printed  # of 8 sequences
    assert f"tokenloom sample {tmp_path / 'to'} uses it" in printed
    model, plain = tl.load(tmp_path / "to"), tl.load(tmp_path / "run")
    assert model.about.grids is not None
    (stored,) = model.about.grids.values()
    assert sorted(stored, key=int) == ["4", "8", "16"]
    stored["4"] = [1, 0.9, 0.5, 0.2, 0]
    model.describe(grids={model.process.name: stored})
    model.save(tmp_path / "again")
    model = tl.load(tmp_path / "again")
    lost = model.process.schedule.lost(tl.Sampler(steps=4).times(model))
    torch.testing.assert_close(lost / lost[0], torch.tensor(stored["4"], dtype=torch.float64))
    torch.testing.assert_close(tl.Sampler(steps=4, grid="fitted").times(model), tl.Sampler(steps=4).times(model))
    for other in (tl.Sampler(steps=4, grid="power:1.5"), tl.Sampler.parse("dndm", steps=4)):
        torch.testing.assert_close(other.times(model), other.times(plain))
    with pytest.raises(ValueError, match="fit-grid"):
        tl.Sampler(steps=4, grid="fitted").times(plain)


def test_one_run_keeps_the_grids_of_several_processes(tmp_path: Path, shell: Shell) -> None:
    train(tiny(tmp_path / "run", method="mdm", predicts=None, objective=None))
    kept = []
    for process in ("", "@transition-times"):
        shell("fit-grid", f"{tmp_path / 'run'}{process}", "--sequences", "4")
        kept.append(tl.load(tmp_path / "run").about.grids or {})
    assert list(kept[0]) == ["masked"]
    assert sorted(kept[1]) == ["masked", "transition-times"]
    assert kept[0].items() <= kept[1].items()


def test_a_grid_is_stored_at_the_address_that_the_model_was_read_from(tmp_path: Path, shell: Shell) -> None:
    train(tiny(tmp_path / "run"))
    for place in (f"file://{tmp_path}/run", f"file://{tmp_path}/run/model"):
        assert f"stored in file://{tmp_path}/run/model" in shell("fit-grid", place, "--sequences", "4").out
        model = tl.load(tmp_path / "run")
        assert list(model.about.grids or {}) == ["uniform"]
        model.describe(grids=None)
        model.save(tmp_path / "run" / "model")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sudoku",), "sudoku is a bundled model.*--to"),
        (("sudoku4-udm-loo", "--to", "x", "--sequences", "3"), "at least 4, got 3"),
        (("sudoku4-udm-loo@max-coupling", "--to", "x"), "bound of MaxCoupling.*frontier --grids"),
        (("nowhere",), "nowhere"),
    ],
)
def test_what_cannot_be_fitted_gets_a_sentence(arguments: tuple[str, ...], words: str, shell: Shell) -> None:
    assert re.search(words, shell.refusal("fit-grid", *arguments))
