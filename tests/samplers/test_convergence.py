"""What a sampler draws tends to p_0: as 1/steps where positions are drawn independently, at once where they are not.

Chi-square tests have a false-alarm rate of at most 1e-6.  Slopes between 2 and 8 steps are measured on a p_0 whose two
positions are mostly equal, where 8 steps are still 0.06 to 0.09 away: 5,000 draws measure that to about 0.005 and a
slope to about 0.06, and the bounds on slopes leave four of these on either side.

What many steps do is computed, not drawn: the enumerated one-step laws of `laws.py`, which `test_one_step.py` and
`test_correctors.py` hold the kernels to, are multiplied, and one short run has the law of the product.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.samplers.helpers import (
    CELLS,
    P0,
    Cell,
    K,
    generator,
    oracle,
    process_of,
    product,
    supported,
    total_variation,
)
from tests.samplers.laws import bridge_law, chain_end, pi_of, psi_law, random_scan, remdm_law, there_and_back
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.samplers import CORRECTORS, PREDICTORS, Psi, Remasking

ROWS = 5_000
TOGETHER = torch.diag(torch.tensor([0.4, 0.25, 0.15]).double()) + (1 - torch.eye(K).double()) * 0.2 / 6
STEPS = (2, 8)
pytestmark = pytest.mark.usefixtures("as_a_user")  # shape checks are on in `test_one_step.py`, for the same kernels
EXACT_PREDICTORS = [
    (name, kind)
    for name, kernel in PREDICTORS.items()
    if kernel().exact and name not in ("gillespie", "confidence", "planned")
    for kind in supported(kernel, CELLS)
]
"""Those three have tests of their own: their positions do not jump independently."""


def draw(
    model: tl.Oracle | tl.MarkovOracle, sampler: str, steps: int, rows: int = ROWS, corrector: str | None = None
) -> Tensor:
    seed = generator(100 + steps)
    return tl.sample(model, rows, steps=steps, sampler=sampler, corrector=corrector, grid="uniform", generator=seed)


def distances(model: tl.Oracle, sampler: str) -> list[float]:
    return [total_variation(sequence_counts(draw(model, sampler, steps), K) / ROWS, model.p0) for steps in STEPS]


def slope(values: list[float], steps: tuple[int, ...] = STEPS) -> float:
    """Of log value against log steps, by least squares."""
    x = torch.tensor([math.log(number) for number in steps])
    y = torch.tensor([math.log(value) for value in values])
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())


COSINE = [("ancestral", tl.Uniform), ("ancestral", tl.Masked), ("mudm", tl.Masked)]


@pytest.mark.parametrize(
    ("sampler", "kind", "schedule", "least"),
    [
        *((*case, EXACT, -1.3) for case in EXACT_PREDICTORS),
        *((*case, tl.CosineSchedule(eps=0.0), -1.4) for case in COSINE),
    ],
)
def test_distance_to_p_0_falls_as_1_over_steps(sampler: str, kind: Cell, schedule: tl.Schedule, least: float) -> None:
    """Tau-leaping rejects double jumps, likeliest near the end where rates grow as 1/t: log(steps) / steps."""
    found = distances(tl.Oracle(TOGETHER, process_of(kind, schedule=schedule), predicts=tl.Denoiser), sampler)
    assert least < slope(found) < (-0.4 if sampler == "tau-leaping" else -0.75)


@pytest.mark.parametrize("options", ["temperature=0", "temperature=0.3", "score=entropy"])
def test_confidence_order_is_exact_one_position_at_a_time_and_only_then(options: str) -> None:
    """Three positions in three steps; in two steps it draws two at once and is 0.2 away."""
    assert PREDICTORS.parse(f"confidence:{options}").exact
    p0 = brute.random_p0(K, 3)
    model = oracle(tl.Masked, p0=p0)
    assert_frequencies(sequence_counts(draw(model, f"confidence:{options}", 3), K), p0)
    assert total_variation(sequence_counts(draw(model, f"confidence:{options}", 2), K) / ROWS, p0) > 0.15


@pytest.mark.parametrize("kind", supported(PREDICTORS["planned"], CELLS))
def test_planned_denoising_tends_to_p_0(kind: Cell) -> None:
    """0.2 away after one step; after 24, a chi-square test that would see a distance of 0.06 sees nothing."""
    assert PREDICTORS["planned"]().exact
    model = oracle(kind, p0=TOGETHER)
    assert total_variation(sequence_counts(draw(model, "planned", 1), K) / ROWS, TOGETHER) > 0.1
    assert_frequencies(sequence_counts(draw(model, "planned", 24), K), TOGETHER)


# ------------------------------------------------------------------------------------------- many steps, computed


def step_law(sampler: str, kind: Cell, alpha_s: float, alpha_t: float) -> Tensor:
    """[starts, L, states], by enumeration."""
    value = PREDICTORS.parse(sampler)
    if isinstance(value, Psi):
        return psi_law(kind, value.kappa, alpha_s, alpha_t)
    if isinstance(value, Remasking):
        largest = min(1.0, (1 - alpha_s) / alpha_t) if alpha_t else 1.0
        sigma = value.eta * largest if value.schedule == "rescale" else min(value.eta, largest)
        return remdm_law(sigma, alpha_s, alpha_t)
    return bridge_law(kind, alpha_s, alpha_t)


def end(sampler: str, kind: Cell, steps: int, correction: Callable[[float], Tensor] | None = None) -> Tensor:
    """The law of the tokens at the end of the even grid, with a correction at every level between two steps."""
    prior, kernels = product(pi_of(kind)), []
    for index in range(steps):
        if correction is not None and index > 0:
            kernels.append(correction(index / steps))
        kernels.append(product(step_law(sampler, kind, (index + 1) / steps, index / steps)))
    number = pi_of(kind).shape[1]
    return chain_end(kernels, prior).view(number, number)[:K, :K].flatten()


def error(*arguments: Any) -> float:
    """The distance of that law to p_0."""
    return total_variation(end(*arguments), P0)


MANY = (256, 1024)


@pytest.mark.parametrize(
    ("sampler", "kind", "least", "most"),
    [
        ("ancestral", tl.Uniform, -1.01, -0.99),
        ("ancestral", tl.Interpolating, -1.01, -0.99),
        ("psi:kappa=0.0", tl.Uniform, -0.5, -0.3),
        ("psi:kappa=0.5", tl.Uniform, -0.5, -0.3),
        ("remasking:schedule=rescale,eta=0.5", tl.Masked, -0.6, -0.4),
        ("remasking:schedule=rescale,eta=1.0", tl.Masked, -0.6, -0.4),
        ("remasking:schedule=cap,eta=0.3", tl.Masked, -0.6, -0.4),
    ],
)
def test_error_falls_as_one_over_the_steps_or_as_their_root_where_much_is_redrawn(
    sampler: str, kind: Cell, least: float, most: float
) -> None:
    """Of psi 0.4 is on the way to 1/2, which takes 10^5 steps to see; 1/n it is not."""
    assert least < slope([error(sampler, kind, steps) for steps in MANY], MANY) < most
    steps = 3 if sampler == "ancestral" else 4
    assert_frequencies(sequence_counts(draw(oracle(kind), sampler, steps), K), end(sampler, kind, steps))


def test_psi_error_falls_as_one_over_the_steps_while_they_are_few() -> None:
    """At the default kappa; no longer at a thousand steps, where the error is four times that of kappa = 1."""
    few = (4, 16)
    assert slope([error("psi", tl.Uniform, steps) for steps in few], few) == pytest.approx(-1, abs=0.05)
    assert slope([error("psi", tl.Uniform, steps) for steps in MANY], MANY) > -0.6


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Interpolating])
def test_random_scan_beside_ancestral_steps_ends_in_p_0_and_sooner(kind: Cell) -> None:
    """64 steps with it are within 1e-3 of p_0; without it 256 are not."""
    assert CORRECTORS["random-scan"]().exact

    def scan(alpha: float) -> Tensor:
        return random_scan(brute.marginal(P0, pi_of(kind), alpha))

    assert error("ancestral", kind, 64, scan) < 1e-3
    assert error("ancestral", kind, 256) > 1e-3
    found = draw(oracle(kind), "ancestral", 5, corrector="random-scan")  # three steps, two corrections
    assert_frequencies(sequence_counts(found, K), end("ancestral", kind, 3, scan))


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Interpolating])
def test_forward_backward_error_stays_with_the_steps_and_falls_with_the_amount(kind: Cell) -> None:
    """About 0.28 times the amount, however many the steps: 0.055 for 0.2 and 0.013 for 0.05."""
    assert not CORRECTORS["forward-backward"]().exact
    much, little = (partial(there_and_back, kind, amount) for amount in (0.2, 0.05))
    large, small = ([error("ancestral", kind, steps, each) for steps in (64, 256)] for each in (much, little))
    assert large[1] > large[0] > 0.045
    assert small[1] > small[0] > 0.01
    assert large[1] / small[1] == pytest.approx(4.4, abs=0.5)
    found = draw(oracle(kind), "ancestral", 5, corrector="forward-backward:amount=0.2")
    assert_frequencies(sequence_counts(found, K), end("ancestral", kind, 3, much))


# --------------------------------------------------------------------------------------------- no steps to speak of


@pytest.mark.parametrize(
    ("kind", "steps"), [(tl.Uniform, 1), *((kind, 3) for kind in supported(PREDICTORS["gillespie"], CELLS))]
)
def test_gillespie_ends_in_p_0_whatever_the_steps(kind: Cell, steps: int) -> None:
    """4,000 draws see a total variation of 0.06 nine times in ten, less than ancestral sampling in 4 steps has."""
    assert_frequencies(sequence_counts(draw(oracle(kind), "gillespie", steps, 4_000), K), P0)


@pytest.mark.parametrize("schedule", [EXACT, tl.LinearSchedule(), tl.CosineSchedule()])
@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
def test_gillespie_ends_in_p_0_where_one_token_is_never_noise(
    schedule: tl.Schedule, predicts: type[tl.LeaveOneOut | tl.Denoiser]
) -> None:
    """All noise is token 1: a clock that ran faster than its rates would make token 0 almost certain."""
    process = tl.Interpolating(2, torch.tensor([[0.0, 1.0]]), schedule=schedule)
    p0 = torch.tensor([0.7, 0.3]).double()
    model = tl.Oracle(p0, process, predicts=predicts)
    drawn = tl.sample(model, 4_000, steps=4, sampler="gillespie", generator=generator())
    assert_frequencies(torch.bincount(drawn.flatten(), minlength=2), p0)


def end_from(floor: float) -> Tensor:
    """The law of one ancestral step to t = 0 from the exact law at t = floor."""
    each = brute.reverse_marginals(P0, pi_of(tl.Uniform), 1.0, 1 - floor)
    return brute.marginal(P0, pi_of(tl.Uniform), 1 - floor) @ product(each)


def test_gillespie_pays_for_its_floor_with_the_square_of_it() -> None:
    """The default floor of 1e-3 costs 3e-6 in total variation; at 0.5 the price shows, and is as computed."""
    assert total_variation(end_from(1e-3), P0) == pytest.approx(3e-6, rel=0.1)
    assert total_variation(end_from(1e-3), P0) / total_variation(end_from(1e-4), P0) == pytest.approx(100, rel=0.05)
    assert total_variation(end_from(0.5), P0) > 0.01
    tokens = draw(oracle(tl.Uniform), "gillespie:floor=0.5", 1, 8_000)
    assert_frequencies(sequence_counts(tokens, K), end_from(0.5))


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Masked])
def test_pairs_of_a_markov_chain_come_out_at_their_frequencies(kind: Cell) -> None:
    """Length 5, by Gillespie: every pair of neighbours, and the first and the last token."""
    initial, transition = torch.tensor([0.6, 0.3, 0.1]).double(), brute.random_pi(K, K, seed=4)
    model = tl.MarkovOracle(initial, transition, 5, kind(K, schedule=EXACT), predicts=tl.Denoiser)
    tokens = draw(model, "gillespie", 1, 1_500)
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
