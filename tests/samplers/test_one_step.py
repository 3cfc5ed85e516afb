"""The law of one step of each predictor from every state, against enumeration.

The false-alarm rate of a test is at most 1e-6 (`tests/statistics.py`), of this file about 1e-4.  Expected
laws come from Bayes' rule on enumerated sequences, never from the package.
"""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import assert_close
from tests.samplers import helpers, laws
from tests.samplers.helpers import CELLS, MASK_PI, P0, ROWS, SEQUENCES, UNIFORM_PI, Cell, K, check_step, oracle, product
from tests.samplers.laws import MASKED_SEQUENCES, bridge_law, masked_bridge, psi_law, remdm_law, reverse_rates, start_of
from tokenloom.posteriors import Posterior
from tokenloom.samplers import PREDICTORS

STEPS = [(0.6, 0.25), (1.0, 0.6), (0.3, 0.0)]
UNTIMED = [kind for kind in CELLS if kind not in (tl.Uniform, tl.Interpolating, tl.MaskedUniform, helpers.table_times)]
"""Given transition times: `test_one_step_lifted.py`."""
CASES: list[tuple[Cell, type[Posterior], str]] = [
    *(
        (kind, predicts, f"ancestral:through={through}")
        for kind in (tl.Uniform, tl.Interpolating)
        for predicts in (tl.Denoiser, tl.LeaveOneOut, tl.Score)
        for through in ("plug-in", "marginalised")
    ),
    *((kind, predicts, "ancestral") for kind in UNTIMED for predicts in (tl.Denoiser, tl.LeaveOneOut)),
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


@pytest.mark.parametrize("through", ["plug-in", "marginalised"])
def test_a_score_cannot_begin_a_chain_where_nothing_is_left_of_the_signal(through: str) -> None:
    with pytest.raises(ValueError, match="says nothing of x_0"):
        tl.sample(oracle(tl.Uniform, tl.Score), 2, steps=2, sampler=f"ancestral:through={through}")


@pytest.mark.parametrize("kind", [tl.Uniform, tl.MaxCoupling, tl.Interpolating, helpers.table_maximal, tl.Hybrid])
@pytest.mark.parametrize("kappa", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS[:2])
def test_psi_step_superposes_the_bridge_and_a_fresh_noising(
    kind: Cell, kappa: float, alpha_s: float, alpha_t: float
) -> None:
    law = product(psi_law(kind, kappa, alpha_s, alpha_t))
    check_step(f"psi:kappa={kappa}", oracle(kind), start_of(kind, alpha_t), alpha_s, law)


def test_psi_is_the_bridge_alone_before_it_sets_in() -> None:
    alpha_s, alpha_t = STEPS[0]  # t = 0.75
    start, model = start_of(tl.Uniform, alpha_t), oracle(tl.Uniform)
    law = product(bridge_law(tl.Uniform, alpha_s, alpha_t))
    check_step("psi:kappa=0.4,since=0.7", model, start, alpha_s, law)


REMASKING = [
    # options, alpha_s, alpha_t, sigma; sigma_max = min(1, (1 - alpha_s) / alpha_t)
    ("schedule=cap,eta=0.3", 0.6, 0.25, 0.3),
    ("schedule=cap,eta=0.9", 0.8, 0.6, 1 / 3),
    ("schedule=rescale,eta=0.5", 0.6, 0.25, 0.5),
    ("schedule=rescale,eta=0.5", 0.8, 0.6, 1 / 6),
    ("schedule=rescale,eta=1", 0.8, 0.6, 1 / 3),
    ("schedule=switch,eta=0.5,switch=0.5", 0.8, 0.6, 1 / 6),
    ("schedule=switch,eta=0.5,switch=0.3", 0.8, 0.6, 0.0),
    ("schedule=loop,eta=0.5,loop_start=0.3", 0.6, 0.25, 0.0),
]


@pytest.mark.parametrize(("options", "alpha_s", "alpha_t", "sigma"), REMASKING)
def test_remasking_step_is_remdm_with_its_schedule_of_sigma_and_the_masked_psi(
    options: str, alpha_s: float, alpha_t: float, sigma: float
) -> None:
    law = remdm_law(sigma, alpha_s, alpha_t)
    assert_close(law, psi_law(tl.Masked, 1 - sigma / (1 - alpha_s), alpha_s, alpha_t))
    check_step(f"remasking:{options}", oracle(tl.Masked), start_of(tl.Masked, alpha_t), alpha_s, product(law))


def test_remasking_loop_stays_at_its_level_and_then_goes_down_from_it() -> None:
    """loop_start = 0.5 and loop_end = 0.1: grid times 0.4 and 0.2 stand for t = 0.5, and 0.05 for t = 0.25."""
    kernel = PREDICTORS.parse("remasking:schedule=loop,eta=0.4,loop_start=0.5,loop_end=0.1")
    start = helpers.states(MASKED_SEQUENCES, 0.5)
    copies = ROWS // len(start.tokens)
    stayed = helpers.step(kernel, oracle(tl.Masked), helpers.repeat(start, copies), 0.8)
    assert bool((stayed.t == 0.5).all())
    helpers.assert_transitions(helpers.transitions(start, stayed.tokens, K + 1), product(remdm_law(0.4, 0.5, 0.5)))
    left = helpers.step(kernel, oracle(tl.Masked), helpers.repeat(start, copies), 0.95)
    assert torch.allclose(left.t, torch.tensor(0.25, dtype=torch.float64))
    helpers.assert_transitions(helpers.transitions(start, left.tokens, K + 1), product(masked_bridge(0.75, 0.5)))


RATED: list[tuple[Cell, type[Posterior]]] = [
    (tl.Uniform, tl.LeaveOneOut),
    (tl.Uniform, tl.Denoiser),
    (tl.Interpolating, tl.LeaveOneOut),
    (tl.Interpolating, tl.Denoiser),
    (tl.Masked, tl.Denoiser),
    (tl.MaxCoupling, tl.Denoiser),
    (tl.AbsorbingUniform, tl.Denoiser),
    (helpers.table_maximal, tl.LeaveOneOut),
    (helpers.table_absorbing, tl.LeaveOneOut),
    (helpers.table_zeros, tl.LeaveOneOut),
    (helpers.table_zeros, tl.Denoiser),
    (helpers.table_point, tl.LeaveOneOut),
    (helpers.table_point, tl.Denoiser),
    (tl.Hybrid, tl.LeaveOneOut),
    (tl.Hybrid, tl.Denoiser),
]


def jump_law(kind: Cell, alpha_t: float, probability: Tensor, rates: Tensor) -> Tensor:
    """Each position jumps once with the given probability, to y in proportion to its rate."""
    own = torch.nn.functional.one_hot(start_of(kind, alpha_t).tokens, rates.shape[-1]).double()
    where = rates / rates.sum(-1, keepdim=True).clamp(min=1e-300)
    return product((1 - probability) * own + probability * where)


@pytest.mark.parametrize(("kind", "predicts"), RATED)
@pytest.mark.parametrize(("alpha_s", "alpha_t"), [(0.3, 0.2), (0.6, 0.5), (0.6, 0.05)])
def test_euler_step_jumps_once_with_probability_cut_at_one(
    kind: Cell, predicts: type[Posterior], alpha_s: float, alpha_t: float
) -> None:
    rates = reverse_rates(kind, alpha_t)
    probability = ((alpha_s - alpha_t) * rates.sum(-1, keepdim=True)).clamp(max=1)
    assert probability.max() < 1 or alpha_t == 0.05
    check_step(
        "euler", oracle(kind, predicts), start_of(kind, alpha_t), alpha_s, jump_law(kind, alpha_t, probability, rates)
    )


@pytest.mark.parametrize(("kind", "predicts"), RATED)
@pytest.mark.parametrize(("alpha_s", "alpha_t"), [(0.3, 0.2), (0.6, 0.05)])
def test_tau_leaping_step_jumps_where_the_poisson_number_is_one(
    kind: Cell, predicts: type[Posterior], alpha_s: float, alpha_t: float
) -> None:
    rates = reverse_rates(kind, alpha_t)
    mean = (alpha_s - alpha_t) * rates.sum(-1, keepdim=True)
    law = jump_law(kind, alpha_t, mean * torch.exp(-mean), rates)
    check_step("tau-leaping", oracle(kind, predicts), start_of(kind, alpha_t), alpha_s, law)


@pytest.mark.parametrize("sampler", ["euler", "tau-leaping"])
@pytest.mark.parametrize(("kind", "predicts"), RATED)
def test_last_step_of_rate_samplers_is_the_bridge(sampler: str, kind: Cell, predicts: type[Posterior]) -> None:
    check_step(sampler, oracle(kind, predicts), start_of(kind, 0.6), 1.0, product(bridge_law(kind, 1.0, 0.6)))


@pytest.mark.parametrize(
    ("predicts", "alpha_s", "alpha_t"),
    [(tl.LeaveOneOut, 0.6, 0.25), (tl.Denoiser, 0.6, 0.25), (tl.Score, 0.6, 0.25), (tl.LeaveOneOut, 0.5, 0.0)],
)
def test_gillespie_goes_by_the_joint_law_of_the_uniform_reverse_chain(
    predicts: type[Posterior], alpha_s: float, alpha_t: float
) -> None:
    """Not only its marginals: no helpers.step size is left to factorise over."""
    law = brute.reverse_kernel(P0, UNIFORM_PI, alpha_s, alpha_t)
    check_step("gillespie", oracle(tl.Uniform, predicts), start_of(tl.Uniform, alpha_t), alpha_s, law, 15_000)


@pytest.mark.parametrize("predicts", [tl.LeaveOneOut, tl.Denoiser])
@pytest.mark.parametrize("kind", [tl.Interpolating, helpers.table_zeros, helpers.table_point, tl.Hybrid])
def test_gillespie_goes_by_the_joint_law_of_the_reverse_chain_of_any_noise(
    kind: Cell, predicts: type[Posterior]
) -> None:
    hybrid = kind is tl.Hybrid
    law = laws.hybrid_reverse(P0, 0.4, 0.75) if hybrid else brute.reverse_kernel(P0, laws.pi_of(kind), 0.6, 0.25)
    check_step("gillespie", oracle(kind, predicts), start_of(kind, 0.25), 0.6, law, 15_000)


@pytest.mark.parametrize("kind", [tl.Masked, tl.AbsorbingUniform, helpers.table_absorbing])
def test_gillespie_goes_by_the_joint_law_of_the_absorbing_reverse_chains(kind: Cell) -> None:
    alpha_s, alpha_t = 0.6, 0.25
    if kind is tl.Masked:
        law = brute.reverse_kernel(P0, MASK_PI, alpha_s, alpha_t)
    else:
        each = [brute.reverse_kernel(P0, brute.point_pi(u, K), alpha_s, alpha_t) for u in SEQUENCES.tolist()]
        law = torch.stack(each, 1).flatten(0, 1)
    check_step("gillespie", oracle(kind), start_of(kind, alpha_t), alpha_s, law)
