"""Bridges beyond those of `test_grid.py`: closed forms of the paper, and what the paper warns of."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close, every_state, time

K = 4
STEPS = [(0.85, 0.6), (0.6, 0.25), (0.3, 0.0), (1.0, 0.4)]
every_step = pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)


@every_step
def test_barycentric_weights_are_the_gammas_of_the_paper(alpha_s: float, alpha_t: float) -> None:
    """`eq:linear-bridge-extension-udm`, symbol by symbol."""
    process = tl.Uniform(K, schedule=EXACT)
    noisy = every_state(K, 1, alpha_t)
    mu = brute.random_pi(K, K, seed=7)
    weights = process.bridge(noisy, time(alpha_s, noisy), tl.Denoiser(mu.unsqueeze(1).log())).weights.squeeze(1)
    ratio = alpha_t / alpha_s
    fresh = (1 - ratio) * (1 - alpha_s)
    gamma_0, gamma_1 = fresh / (1 + (K - 1) * alpha_t), (ratio - alpha_t) / (1 - alpha_t)
    gamma_2, gamma_3 = (alpha_s - alpha_t) / (1 - alpha_t), fresh / (1 - alpha_t)
    own = mu.diagonal()
    paper = [gamma_1 + (gamma_3 - gamma_0) * own, gamma_2 * torch.ones_like(own), gamma_3 + (gamma_0 - gamma_3) * own]
    assert_close(weights, torch.stack(paper, -1), "`eq:linear-bridge-extension-udm`")


def test_plugging_the_denoiser_into_the_canonical_bridge_is_wrong() -> None:
    p0, pi = brute.random_p0(K, 2), brute.uniform_pi(K, 2)
    process = tl.Uniform(K, schedule=EXACT)
    noisy = every_state(K, 2, 0.25)
    mistaken = tl.LeaveOneOut(brute.denoiser(p0, pi, 0.25).log())
    law = process.bridge(noisy, time(0.6, noisy), mistaken).dense()
    assert (law - brute.reverse_marginals(p0, pi, 0.6, 0.25)).abs().max() > 0.05


@every_step
def test_canonical_bridge_is_injective_in_the_prediction(alpha_s: float, alpha_t: float) -> None:
    """The prediction is read back from the bridge by the inversion in the proof of `prop:loo`."""
    process = tl.Uniform(K, schedule=EXACT)
    noisy = every_state(K, 1, alpha_t)
    nu = brute.random_pi(K, K, seed=3).unsqueeze(1)
    law = process.bridge(noisy, time(alpha_s, noisy), tl.LeaveOneOut(nu.log())).dense()
    fresh = (1 - alpha_t / alpha_s) * (1 - alpha_s)
    own = noisy.tokens.unsqueeze(-1)
    leave = 1 - law.gather(-1, own)
    nu_own = (alpha_s - alpha_t + (K - 1) * fresh / K - leave * (1 - alpha_t)) / (
        alpha_s - alpha_t + leave * K * alpha_t
    )
    others = ((K * alpha_t * nu_own + 1 - alpha_t) * law - fresh / K) / (alpha_s - alpha_t)
    assert_close(others.scatter(-1, own, nu_own), nu, "`eq:bridge-injective`")


def forward_row(alpha: float, x_0: int) -> Tensor:
    return brute.kernel(alpha, brute.uniform_pi(K, 1))[x_0]


def pair_law(alpha_s: float, alpha_t: float, x_0: int) -> Tensor:
    """q(x_t, x_s | x_0), rows x_t, from the package's bridge and the definition of the marginal."""
    noisy = every_state(K, 1, alpha_t)
    bridge = tl.MaxCoupling(K, schedule=EXACT).bridge(noisy, time(alpha_s, noisy), torch.full((K, 1), x_0)).dense()
    return bridge.squeeze(1) * forward_row(alpha_t, x_0)[:, None]


@every_step
def test_max_coupling_is_maximal(alpha_s: float, alpha_t: float) -> None:
    """P(x_s = x_t) reaches sum_x min(q_s, q_t), which the Markov coupling misses."""
    for x_0 in range(K):
        overlap = torch.minimum(forward_row(alpha_s, x_0), forward_row(alpha_t, x_0)).sum()
        assert_close(pair_law(alpha_s, alpha_t, x_0).diagonal().sum(), overlap, "`prop:uniform-max-coupling-bridge`")
        markov = forward_row(alpha_s, x_0) @ brute.kernel(alpha_t / alpha_s, brute.uniform_pi(K, 1)).diagonal()
        assert (markov < overlap - 1e-3) == (0 < alpha_s < 1)


@every_step
def test_max_coupling_pair_has_the_closed_form(alpha_s: float, alpha_t: float) -> None:
    """`eq:max-coupling-pair`."""
    for x_0 in range(K):
        clean = torch.eye(K, dtype=torch.float64)[x_0]
        stays = torch.eye(K, dtype=torch.float64)
        paper = alpha_t * torch.outer(clean, clean) + (alpha_s - alpha_t) / K * clean + (1 - alpha_s) / K * stays
        assert_close(pair_law(alpha_s, alpha_t, x_0), paper, "`eq:max-coupling-pair`")
