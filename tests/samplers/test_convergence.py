"""What a sampler draws tends to p_0: as 1/steps where positions are drawn independently, at once where they are not.

Chi-square tests have a false-alarm rate of at most 1e-6.  Slopes over 2, 4, 8 and 16 steps are measured on a p_0 whose
two positions are mostly equal, where 16 steps are still 0.03 to 0.05 away: 10,000 draws measure that to about 0.004 and
a slope to about 0.06, and the bounds on slopes leave four of these on either side.
"""

import math

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.samplers.helpers import P0, UNIFORM_PI, K, oracle, product
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.samplers.kernel import PREDICTORS

ROWS = 10_000
TOGETHER = torch.diag(torch.tensor([0.4, 0.25, 0.15]).double()) + (1 - torch.eye(K).double()) * 0.2 / 6
STEPS = (2, 4, 8, 16)
EXACT_PREDICTORS = [
    (name, kind) for name, kernel in PREDICTORS.items() if kernel.exact for kind in kernel.serves if name != "gillespie"
]
"""Gillespie's law does not depend on the steps; it has tests of its own."""


def draw(model: tl.Oracle | tl.MarkovOracle, sampler: str, steps: int, rows: int = ROWS) -> Tensor:
    return tl.sample(model, rows, steps=steps, predictor=sampler, generator=torch.Generator().manual_seed(100 + steps))


def total_variation(law: Tensor, p0: Tensor = P0) -> float:
    return float((law - p0.flatten()).abs().sum() / 2)


def distances(model: tl.Oracle, sampler: str) -> list[float]:
    return [total_variation(sequence_counts(draw(model, sampler, steps), K) / ROWS, model.p0) for steps in STEPS]


def slope(values: list[float]) -> float:
    """Of log value against log steps, by least squares."""
    x = torch.tensor([math.log(steps) for steps in STEPS])
    y = torch.tensor([math.log(value) for value in values])
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


@pytest.mark.parametrize(("sampler", "kind"), EXACT_PREDICTORS)
def test_distance_to_p_0_falls_as_one_over_the_steps(sampler: str, kind: type[tl.Process]) -> None:
    """Tau-leaping rejects double jumps, likeliest near the end where rates grow as 1/t: log(steps) / steps."""
    found = distances(oracle(kind, p0=TOGETHER), sampler)
    assert found == sorted(found, reverse=True)
    assert -1.3 < slope(found) < (-0.5 if sampler == "tau-leaping" else -0.75)


@pytest.mark.parametrize(
    ("sampler", "kind"),
    [("ancestral", tl.Uniform), ("ancestral", tl.Masked), ("mudm", tl.Masked)],
)
def test_the_same_holds_for_the_cosine_schedule(sampler: str, kind: type[tl.Process]) -> None:
    found = distances(tl.Oracle(TOGETHER, kind(K, schedule=tl.CosineSchedule(eps=0.0)), predicts=tl.Denoiser), sampler)
    assert found == sorted(found, reverse=True)
    assert -1.4 < slope(found) < -0.75


def test_rules_of_thumb_do_not_tend_to_p_0() -> None:
    """The slope tells them apart: 16 steps of confidence order are no closer than 4."""
    found = distances(oracle(tl.Masked, p0=TOGETHER), "confidence")
    assert slope(found) > -0.5


@pytest.mark.parametrize(("kind", "steps"), [(tl.Uniform, 1), *((kind, 5) for kind in PREDICTORS["gillespie"].serves)])
def test_gillespie_ends_in_p_0_whatever_the_steps(kind: type[tl.Process], steps: int) -> None:
    assert_frequencies(sequence_counts(draw(oracle(kind), "gillespie", steps), K), P0)


def end_from(floor: float) -> Tensor:
    """The law of one ancestral step to t = 0 from the exact law at t = floor."""
    each = brute.reverse_marginals(P0, UNIFORM_PI, 1.0, 1 - floor)
    return brute.marginal(P0, UNIFORM_PI, 1 - floor) @ product(each)


def test_gillespie_pays_for_its_floor_with_the_square_of_it() -> None:
    """The default floor of 1e-3 costs 3e-6 in total variation; at 0.5 the price shows, and is as computed."""
    assert total_variation(end_from(1e-3)) == pytest.approx(3e-6, rel=0.1)
    assert total_variation(end_from(1e-3)) / total_variation(end_from(1e-4)) == pytest.approx(100, rel=0.05)
    assert total_variation(end_from(0.5)) > 0.01
    tokens = draw(oracle(tl.Uniform), "gillespie:floor=0.5", 1)
    assert_frequencies(sequence_counts(tokens, K), end_from(0.5))


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked])
def test_pairs_of_a_markov_chain_come_out_at_their_frequencies(kind: type[tl.Process]) -> None:
    """Length 5, by Gillespie: every pair of neighbours, and the first and the last token."""
    initial, transition = torch.tensor([0.6, 0.3, 0.1]).double(), brute.random_pi(K, K, seed=4)
    model = tl.MarkovOracle(initial, transition, 5, kind(K, schedule=EXACT), predicts=tl.Denoiser)
    tokens = draw(model, "gillespie", 1, 2_500)
    marginal = initial
    for position in range(4):
        pair = marginal[:, None] * transition
        assert_frequencies(sequence_counts(tokens[:, position : position + 2], K), pair)
        marginal = pair.sum(0)
    ends = initial[:, None] * torch.linalg.matrix_power(transition, 4)
    assert_frequencies(sequence_counts(tokens[:, [0, 4]], K), ends)


def test_ancestral_sampling_of_a_long_chain_tends_to_its_pairs() -> None:
    """Length 24, 1,000 draws, all pairs pooled (measured to about 0.005): 0.28 away with 2 steps, 0.01 with 24."""
    transition = 0.8 * torch.eye(K).double() + 0.2 * brute.random_pi(K, K, seed=4)
    stationary = torch.linalg.matrix_power(transition, 200)[0]
    model = tl.MarkovOracle(stationary, transition, 24, tl.Uniform(K, schedule=EXACT))
    exact = stationary[:, None] * transition
    found = []
    for steps in (2, 24):
        tokens = draw(model, "ancestral", steps, 1_000)
        pairs = torch.bincount((tokens[:, :-1] * K + tokens[:, 1:]).flatten(), minlength=K * K)
        found.append(float((pairs / pairs.sum() - exact.flatten()).abs().sum() / 2))
    assert found[0] > 6 * found[1]
