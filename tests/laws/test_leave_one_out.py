"""Proposition 1: plugged into Bayes' bridge, the leave-one-out posterior is the exact reverse transition."""

import pytest
import torch

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close, every_state, time

K, L = 3, 3
STEPS = [(0.85, 0.6), (0.6, 0.25), (0.3, 0.0), (1.0, 0.4)]


def processes() -> list[tuple[tl.Process, torch.Tensor]]:
    masked = tl.Masked(K, schedule=EXACT)
    return [
        (tl.Uniform(K, schedule=EXACT), brute.uniform_pi(K, L)),
        (masked, brute.point_pi([K] * L, K + 1)),
        (tl.Interpolating(K, brute.random_pi(K, L), schedule=EXACT), brute.random_pi(K, L)),
    ]


def name(value: object) -> str | None:
    return value[0].title if isinstance(value, tuple) and isinstance(value[0], tl.Process) else None


@pytest.mark.parametrize("case", processes(), ids=name)
@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_leave_one_out_plug_in_is_the_exact_marginal_reverse_transition(
    case: tuple[tl.Process, torch.Tensor], alpha_s: float, alpha_t: float
) -> None:
    process, pi = case
    p0 = brute.random_p0(K, L)
    noisy = every_state(process.num_states, L, alpha_t)
    possible = brute.marginal(p0, pi, alpha_t) > 0
    nu = tl.LeaveOneOut(brute.leave_one_out(p0, pi, alpha_t)[..., :K].clamp(min=0).nan_to_num(1.0).log())
    exact = brute.reverse_marginals(p0, pi, alpha_s, alpha_t)
    for prediction in (nu, tl.convert(nu, tl.Denoiser, noisy.tokens, noisy.alpha_t, process)):
        assert_close(process.bridge(noisy, time(alpha_s, noisy), prediction).dense()[possible], exact[possible])


@pytest.mark.parametrize("case", processes(), ids=name)
@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_marginalised_denoiser_is_the_exact_marginal_reverse_transition(
    case: tuple[tl.Process, torch.Tensor], alpha_s: float, alpha_t: float
) -> None:
    process, pi = case
    p0 = brute.random_p0(K, L)
    noisy = every_state(process.num_states, L, alpha_t)
    possible = brute.marginal(p0, pi, alpha_t) > 0
    mu = brute.denoiser(p0, pi, alpha_t)[..., :K].nan_to_num(1.0)
    mixture = process.bridge(noisy, time(alpha_s, noisy), tl.Denoiser(mu.log()))
    exact = brute.reverse_marginals(p0, pi, alpha_s, alpha_t)
    assert_close(mixture.log_probs().exp()[possible], exact[possible])


def test_plugging_the_denoiser_into_the_canonical_bridge_is_wrong() -> None:
    p0, pi = brute.random_p0(K, L), brute.uniform_pi(K, L)
    process = tl.Uniform(K, schedule=EXACT)
    noisy = every_state(K, L, 0.25)
    mistaken = tl.LeaveOneOut(brute.denoiser(p0, pi, 0.25).log())
    law = process.bridge(noisy, time(0.6, noisy), mistaken).log_probs().exp()
    assert (law - brute.reverse_marginals(p0, pi, 0.6, 0.25)).abs().max() > 0.05


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_canonical_bridge_is_injective_in_the_prediction(alpha_s: float, alpha_t: float) -> None:
    """The prediction is read back from the bridge by the inversion in the proof of Proposition 1."""
    process = tl.Uniform(K, schedule=EXACT)
    noisy = every_state(K, 1, alpha_t)
    nu = brute.random_pi(K, K, seed=3).unsqueeze(1)
    law = process.bridge(noisy, time(alpha_s, noisy), tl.LeaveOneOut(nu.log())).log_probs().exp()
    fresh = (1 - alpha_t / alpha_s) * (1 - alpha_s)
    own = noisy.tokens.unsqueeze(-1)
    leave = 1 - law.gather(-1, own)
    nu_own = (alpha_s - alpha_t + (K - 1) * fresh / K - leave * (1 - alpha_t)) / (
        alpha_s - alpha_t + leave * K * alpha_t
    )
    others = ((K * alpha_t * nu_own + 1 - alpha_t) * law - fresh / K) / (alpha_s - alpha_t)
    assert_close(others.scatter(-1, own, nu_own), nu)


def test_masked_bridge_does_not_identify_the_prediction_at_visible_positions() -> None:
    process = tl.Masked(K, schedule=EXACT)
    noisy = every_state(K + 1, 1, 0.4)
    predictions = [tl.LeaveOneOut(brute.random_pi(K, K + 1, seed).unsqueeze(1).log()) for seed in (4, 5)]
    laws = [process.bridge(noisy, time(0.7, noisy), nu).dense() for nu in predictions]
    assert_close(laws[0][:K], laws[1][:K])
    assert (laws[0][K] - laws[1][K]).abs().max() > 0.01
