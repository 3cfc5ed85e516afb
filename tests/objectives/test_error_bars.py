"""An error bar covers the truth as often as it says, at 64 rows as at 2,000, for every process."""

import math

import pytest
import torch
from torch import Generator, Tensor

import tokenloom as tl
from tests import brute
from tokenloom.cells import PROCESSES
from tokenloom.data.markov import markov_chain
from tokenloom.objectives import likelihood
from tokenloom.objectives.grouped_ratio import NORMAL, grouped_ratio, student_quantile, widening
from tokenloom.objectives.likelihood import Likelihood, likelihood_of
from tokenloom.objectives.time_integral import group_size

K, L = 4, 6
CHAIN = markov_chain(K, 1)
"""A hard case: rows differ by their mean, so much of a small sample's error is in the rare rows that it misses."""
FALSE_ALARM = 1e-3
"""How often a bar that covers 95% fails one case; seeds are fixed, so a passing test keeps passing."""
SIZES = {64: 400, 256: 80, 2000: 8}
"""Rows of a data set, and how many data sets are scored."""


def process_for(name: str) -> tl.Process:
    tables = {"pi": brute.random_pi(K, L)} if name == "interpolating" else {}
    return PROCESSES.parse(name, vocab_size=K, **tables)


BOUNDED = [name for name in PROCESSES if name != "left-to-right"]
"""All processes with an integral over time."""
LOOSE = ("max-coupling",)
"""Whose bound is not the entropy even at the exact posterior; the mean over all data sets stands for the truth."""


def one_generator(seeds: list[int], device: torch.device) -> Generator:
    return Generator(device).manual_seed(seeds[0])


def scored(name: str, rows: int, sets: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Likelihood], float]:
    """The figures of data sets of `rows` rows x 2 times, and the truth.  They are parts of one call, whole groups each.

    One generator draws for a whole batch, which is as random as one per row, and fast.
    """
    group = group_size(rows, 2)
    monkeypatch.setattr(likelihood, "group_size", lambda count, samples: group)
    monkeypatch.setattr(likelihood, "derive_seed", lambda seed, term, row: (seed + row) % 2**62)
    process = process_for(name)
    oracle = tl.MarkovOracle(*CHAIN, L, process, predicts=process.preferred)
    generator = Generator().manual_seed(1)
    x_0 = oracle.sample(sets * rows, generator)
    whole = tl.nelbo(oracle, x_0, 2, generator=generator, batch=8000, row_noise=one_generator)
    parts = [
        likelihood_of(nats, torch.full_like(nats, L), group, whole.estimator, whole.exact)
        for nats in whole.per_sequence.view(sets, rows)
    ]
    return parts, whole.nats if name in LOOSE else oracle.entropy()


def binomial_below(successes: int, trials: int, rate: float) -> float:
    return sum(math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(successes + 1))


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("name", BOUNDED)
def test_two_standard_errors_cover_95_of_100(name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures, truth = scored(name, rows, SIZES[rows], monkeypatch)
    covered = sum(abs(figure.nats - truth) < NORMAL * figure.standard_error for figure in figures)
    assert binomial_below(covered, len(figures), 0.95) > FALSE_ALARM, f"{covered} of {len(figures)}"


@pytest.mark.parametrize("rows", [2, 8, 20])
def test_a_handful_of_skewed_rows_is_covered_too(rows: int) -> None:
    """Exponential rows: 1.96 plain errors would cover 62, 87 and 92 of 100 at 2, 8 and 20 rows; these, 92 and more."""
    draws = torch.empty(1000, rows, dtype=torch.float64).exponential_(generator=Generator().manual_seed(rows))
    found = [grouped_ratio(values, torch.ones_like(values), 1) for values in draws]
    covered = sum(abs(mean - 1) < NORMAL * error for mean, error in found)
    assert covered >= 915


def test_the_error_of_many_even_rows_is_the_plain_one() -> None:
    values = torch.randn(20_000, generator=Generator().manual_seed(0), dtype=torch.float64)
    _, error = grouped_ratio(values, torch.ones_like(values), 1)
    assert error == pytest.approx(float(values.std()) / math.sqrt(20_000), rel=1e-3)


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (10, 2.228), (31, 2.040)])
def test_the_quantiles_of_student_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert student_quantile(freedom) == pytest.approx(quantile, rel=2e-3)


def test_rows_that_do_not_differ_have_no_error() -> None:
    same = torch.full((5,), 2.0, dtype=torch.float64)
    assert grouped_ratio(same, torch.ones_like(same), 1) == (2.0, 0.0)
    assert widening(torch.zeros(5, dtype=torch.float64)) == pytest.approx(2.776 / 1.96, rel=1e-3)


@pytest.mark.parametrize(("schedule", "term"), [(tl.LinearSchedule(eps=0.0), False), (tl.LinearSchedule(), True)])
def test_a_figure_names_the_prior_term_only_where_there_is_one(schedule: tl.Schedule, term: bool) -> None:
    oracle = tl.MarkovOracle(*CHAIN, L, tl.Uniform(K, schedule=schedule))
    x_0: Tensor = oracle.sample(4, Generator().manual_seed(0))
    assert ("prior term" in tl.nelbo(oracle, x_0).estimator) == term


def test_progress_rises_to_one_and_absurd_sizes_are_refused() -> None:
    oracle = tl.MarkovOracle(*CHAIN, L, tl.Uniform(K))
    x_0 = oracle.sample(10, Generator().manual_seed(0))
    shares: list[float] = []
    tl.nelbo(oracle, x_0, 3, batch=7, on_progress=shares.append)
    assert shares == sorted(shares)
    assert len(shares) == 5 + 2  # the integral's calls and the prior term's
    assert shares[-1] == 1
    with pytest.raises(
        ValueError, match=r"scoring 10 rows at 1,000,000,000,000 times each needs about .* this machine"
    ):
        tl.nelbo(oracle, x_0, 10**12)
