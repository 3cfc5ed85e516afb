"""The law of one step of each predictor from every state, against enumeration.

The false-alarm rate of a test is at most 1e-6 (`tests/statistics.py`), of this file about 1e-4.  Expected
laws come from Bayes' rule on enumerated sequences, never from the package.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import assert_close
from tests.samplers import helpers, laws
from tests.samplers.helpers import CELLS, ROWS, SEQUENCES, Cell, K, L, check_step, generator, oracle, product, supported
from tests.samplers.laws import bridge_law, denoiser, markov_bridges, psi_law, remdm_law, reverse_law, start_of
from tests.statistics import assert_uniform
from tokenloom.posteriors import Posterior
from tokenloom.samplers import DNDM, PREDICTORS

STEPS = [(0.6, 0.25), (1.0, 0.6), (0.3, 0.0)]
TIMED: list[Cell] = [tl.MaskedUniform, helpers.table_times]
"""Their steps are given transition times, at the end of this file."""
CASES: list[tuple[Cell, type[Posterior], str]] = [
    *(
        (kind, predicts, f"ancestral:through={through}")
        for kind in (tl.Uniform, tl.Interpolating)
        for predicts in (tl.Denoiser, tl.LeaveOneOut, tl.Score)
        for through in ("plug-in", "marginalised")
    ),
    *(
        (kind, predicts, "ancestral")
        for kind in CELLS
        if kind not in (tl.Uniform, tl.Interpolating, *TIMED)
        for predicts in (tl.Denoiser, tl.LeaveOneOut)
    ),
]


@pytest.mark.parametrize(
    ("kind", "predicts", "sampler", "alpha_s", "alpha_t"),
    [(*case, *times) for case in CASES for times in STEPS if case[1] is not tl.Score or times[1] > 0],
)
def test_ancestral_step_has_the_marginals_of_the_reverse_chain(
    kind: Cell, predicts: type[Posterior], sampler: str, alpha_s: float, alpha_t: float
) -> None:
    start = start_of(kind, alpha_t)
    keep = laws.possible(kind, start, alpha_t)
    law = product(bridge_law(kind, alpha_s, alpha_t))[keep]
    check_step(sampler, oracle(kind, predicts), start.sequences(keep), alpha_s, law)


@pytest.mark.parametrize("kind", supported(PREDICTORS["psi"], CELLS))
@pytest.mark.parametrize(("kappa", "since"), [(0.0, 1.0), (0.4, 1.0), (1.0, 1.0), (0.4, 0.7)])
@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS[:2])
def test_psi_step_superposes_the_bridge_and_a_fresh_noising(
    kind: Cell, kappa: float, since: float, alpha_s: float, alpha_t: float
) -> None:
    """Before it sets in, the bridge alone."""
    law = product(psi_law(kind, kappa if 1 - alpha_t <= since else 1.0, alpha_s, alpha_t))
    check_step(f"psi:kappa={kappa},since={since}", oracle(kind), start_of(kind, alpha_t), alpha_s, law)


LOOP = "schedule=loop,eta=0.4,loop_start=0.5,loop_end=0.1"
"""Grid times 0.4 and 0.2 stand for t = 0.5, and 0.05 for t = 0.25."""
OWN_LEVEL = f"{LOOP},loop_level=0.8"
"""They stand for t = 0.2 here, 0.75 for t = 0.6 and 0.05 for t = 0.1."""
REMASKING = [
    # options, alpha_s of the grid, alpha_t, sigma, alpha_s of the state; sigma_max = min(1, (1 - alpha_s) / alpha_t)
    ("schedule=cap,eta=0.3", 0.6, 0.25, 0.3, 0.6),
    ("schedule=cap,eta=0.9", 0.8, 0.6, 1 / 3, 0.8),
    ("schedule=rescale,eta=0.5", 0.6, 0.25, 0.5, 0.6),
    ("schedule=rescale,eta=0.5", 0.8, 0.6, 1 / 6, 0.8),
    ("schedule=rescale,eta=1", 0.8, 0.6, 1 / 3, 0.8),
    ("schedule=rescale,eta=0.5,switch=0.5", 0.8, 0.6, 1 / 6, 0.8),
    ("schedule=rescale,eta=0.5,switch=0.3", 0.8, 0.6, 0.0, 0.8),
    ("schedule=cap,eta=0.3,switch=0.75", 0.6, 0.25, 0.3, 0.6),
    ("schedule=cap,eta=0.3,switch=0.7", 0.6, 0.25, 0.0, 0.6),
    ("schedule=cap,eta=1,switch=0", 0.6, 0.25, 0.0, 0.6),
    ("schedule=loop,eta=0.5,loop_start=0.3", 0.6, 0.25, 0.0, 0.6),
    (LOOP, 0.8, 0.5, 0.4, 0.5),
    (LOOP, 0.95, 0.5, 0.0, 0.75),
    (OWN_LEVEL, 0.25, 0.1, 0.0, 0.4),
    (OWN_LEVEL, 0.5, 0.4, 0.0, 0.8),
    (OWN_LEVEL, 0.7, 0.8, 0.25, 0.8),
    (f"{OWN_LEVEL},switch=0.2", 0.7, 0.8, 0.25, 0.8),
    (f"{OWN_LEVEL},switch=0.15", 0.7, 0.8, 0.0, 0.8),
    (OWN_LEVEL.replace("eta=0.4", "eta=0.02"), 0.7, 0.8, 0.02, 0.8),
    (OWN_LEVEL, 0.95, 0.8, 0.0, 0.9),
]


@pytest.mark.parametrize(("options", "alpha_s", "alpha_t", "sigma", "level"), REMASKING)
def test_remasking_step_is_remdm_with_its_schedule_of_sigma_and_the_masked_psi(
    options: str, alpha_s: float, alpha_t: float, sigma: float, level: float
) -> None:
    """A loop arrives at another level than that of the grid."""
    law = remdm_law(sigma, level, alpha_t)
    assert_close(law, psi_law(tl.Masked, 1 - sigma / (1 - level), level, alpha_t))
    start = start_of(tl.Masked, alpha_t)
    check_step(f"remasking:{options}", oracle(tl.Masked), start, alpha_s, product(law), level=level)


every_rate = pytest.mark.parametrize("kind", supported(PREDICTORS["euler"], CELLS))
every_posterior = pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])


@every_rate
@every_posterior
@pytest.mark.parametrize(("alpha_s", "alpha_t"), [(0.3, 0.2), (0.6, 0.5), (0.6, 0.05)])
@pytest.mark.parametrize("sampler", ["euler", "tau-leaping"])
def test_step_with_frozen_rates_jumps_at_most_once(
    sampler: str, kind: Cell, predicts: type[Posterior], alpha_s: float, alpha_t: float
) -> None:
    """By Euler with the expected number as probability, cut at one; by tau-leaping where a Poisson number is one.  A
    jump goes to y in proportion to its rate."""
    rates = laws.reverse_rates(kind, alpha_t)
    total = rates.sum(-1, keepdim=True)
    mean = (alpha_s - alpha_t) * total
    probability = mean.clamp(max=1) if sampler == "euler" else mean * torch.exp(-mean)
    assert mean.max() < 1 or alpha_t == 0.05
    start = start_of(kind, alpha_t)
    own = torch.nn.functional.one_hot(start.tokens, rates.shape[-1]).double()
    law = product((1 - probability) * own + probability * rates / total.clamp(min=1e-300))
    check_step(sampler, oracle(kind, predicts), start, alpha_s, law)


@pytest.mark.parametrize("sampler", ["euler", "tau-leaping"])
@every_rate
@every_posterior
@pytest.mark.parametrize(("alpha_s", "alpha_t"), [(1.0, 0.6), (0.3, 0.0)])
def test_where_rates_diverge_a_step_is_the_bridge(
    sampler: str, kind: Cell, predicts: type[Posterior], alpha_s: float, alpha_t: float
) -> None:
    start = start_of(kind, alpha_t)
    keep = laws.possible(kind, start, alpha_t)
    law = product(bridge_law(kind, alpha_s, alpha_t))[keep]
    check_step(sampler, oracle(kind, predicts), start.sequences(keep), alpha_s, law)


@pytest.mark.parametrize(
    ("kind", "predicts", "alpha_s", "alpha_t"),
    [
        (tl.Uniform, tl.Score, 0.6, 0.25),
        (tl.Uniform, tl.LeaveOneOut, 0.5, 0.0),
        *(
            (kind, predicts, 0.6, 0.25)
            for kind in supported(PREDICTORS["gillespie"], CELLS)
            if kind not in laws.MAXIMAL
            for predicts in (tl.LeaveOneOut, tl.Denoiser)
        ),
    ],
)
def test_gillespie_goes_by_the_joint_law_of_the_reverse_chain(
    kind: Cell, predicts: type[Posterior], alpha_s: float, alpha_t: float
) -> None:
    """Not only its marginals: no step size is left to factorise over."""
    rows = ROWS if kind in (tl.Masked, *laws.ABSORBING) else 15_000
    law = reverse_law(kind, alpha_s, alpha_t)
    check_step("gillespie", oracle(kind, predicts), start_of(kind, alpha_t), alpha_s, law, rows)


# ------------------------------------------------------------------------- given transition times or an absorbing state

ALPHA_S, ALPHA_T = STEPS[0]
WHEN = brute.sequences(3, L)
"""For every position: 0 where tau <= s, 1 where s < tau <= t, 2 where tau > t."""


def with_times() -> tuple[tl.Noisy, Tensor]:
    """Every (x_t, when)."""
    s, t = 1 - ALPHA_S, 1 - ALPHA_T
    tokens, when = SEQUENCES.repeat_interleave(len(WHEN), 0), WHEN.repeat(len(SEQUENCES), 1)
    tau = torch.tensor([s / 2, (s + t) / 2, (1 + t) / 2], dtype=torch.float64)[when]
    return helpers.states(tokens, ALPHA_T, tau), when


def arriving(start: tl.Noisy, when: Tensor, mu: Tensor) -> Tensor:
    """The law of a step in which what arrives is drawn from mu, and the rest stays."""
    stay = torch.nn.functional.one_hot(start.tokens, K).double()
    return product(torch.where((when == 1).unsqueeze(-1), mu, stay))


@pytest.mark.parametrize(
    ("kind", "sampler"), [*((kind, "ancestral") for kind in TIMED), (tl.MaskedUniform, "mudm"), (tl.Masked, "mudm")]
)
def test_fixed_times_replace_what_arrives_by_the_masked_denoiser(kind: Cell, sampler: str) -> None:
    start, when = with_times()
    law = arriving(start, when, laws.masked_view(start.tokens, when < 2, ALPHA_T))
    check_step(sampler, oracle(kind), start, ALPHA_S, law)


def test_dndm_replaces_what_arrives_by_the_plain_denoiser() -> None:
    start, when = with_times()
    law = arriving(start, when, denoiser(tl.Uniform, ALPHA_T).repeat_interleave(len(WHEN), 0))
    many = helpers.repeat(start, ROWS // len(start.tokens))
    assert many.aux is not None
    arrived, times = helpers.advance(DNDM(), oracle(tl.Uniform), replace(many, aux=None), ALPHA_S, many.aux)
    helpers.assert_transitions(helpers.transitions(start, arrived.tokens, K), law)
    assert torch.equal(times, many.aux)
    assert arrived.aux is None


def test_dndm_begins_below_the_time_of_its_state() -> None:
    """A step with no past: what has not come by t comes below s with probability (1 - alpha_s) / (1 - alpha_t)."""
    stay = torch.nn.functional.one_hot(SEQUENCES, K).double()
    share = (ALPHA_S - ALPHA_T) / (1 - ALPHA_T)
    law = product(share * denoiser(tl.Uniform, ALPHA_T) + (1 - share) * stay)
    check_step("dndm", oracle(tl.Uniform), helpers.states(SEQUENCES, ALPHA_T), ALPHA_S, law)


def test_dndm_draws_its_times_given_that_they_come_before_the_end() -> None:
    """alpha_tau is uniform on [alpha_1, 1]; under the linear schedule tau is uniform, whatever alpha_1."""
    process, source = tl.Uniform(K, schedule=tl.LinearSchedule(eps=0.5)), generator()
    assert_uniform(DNDM().begin(process, process.prior(5_000, L, source), source))


def outcome(arrived: tl.Noisy) -> Tensor:
    """x_s with U_s, or with whether tau_s <= s."""
    assert arrived.aux is not None
    if arrived.aux.is_floating_point():
        return arrived.tokens * 2 + (arrived.aux <= arrived.t[:, None])
    return arrived.tokens * K + arrived.aux


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        *((kind, "reaudm") for kind in laws.ABSORBING),
        (tl.Masked, "mudm:resample=true"),
        (tl.MaskedUniform, "reaudm"),
        (helpers.table_times, "mudm:resample=true"),
    ],
)
def test_resampled_step_draws_x_0_then_the_markov_bridge_then_the_auxiliary_variable(kind: Cell, sampler: str) -> None:
    """The joint law of x_s and of U_s, or of whether tau_s <= s."""
    if kind in laws.ABSORBING:
        start, mu = start_of(kind, ALPHA_T), denoiser(kind, ALPHA_T)
    else:
        start, when = with_times()
        mu = laws.masked_view(start.tokens, when < 2, ALPHA_T)
    noise = tl.Uniform if kind is tl.Masked else kind
    bridges = markov_bridges(noise, start.tokens, ALPHA_S, ALPHA_T)
    each = torch.einsum("nlo,nlos,losv->nlsv", mu, bridges, laws.redrawn(noise, ALPHA_S)).flatten(-2)
    check_step(sampler, oracle(kind), start, ALPHA_S, product(each), 3 * ROWS, outcome=outcome)
