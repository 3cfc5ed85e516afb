"""The maximal coupling of uniform marginals (`prop:uniform-max-coupling-bridge`)."""

import pytest
import torch

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close, every_state, time

K = 4
STEPS = [(0.85, 0.6), (0.6, 0.25), (0.3, 0.0), (1.0, 0.4)]


def forward_row(alpha: float, x_0: int) -> torch.Tensor:
    return brute.kernel(alpha, brute.uniform_pi(K, 1))[x_0]


def pair_law(alpha_s: float, alpha_t: float, x_0: int) -> torch.Tensor:
    """q(x_t, x_s | x_0), rows x_t, from the package's bridge and the definition of the marginal."""
    noisy = every_state(K, 1, alpha_t)
    bridge = tl.MaxCoupling(K, schedule=EXACT).bridge(noisy, time(alpha_s, noisy), torch.full((K, 1), x_0)).dense()
    return bridge.squeeze(1) * forward_row(alpha_t, x_0)[:, None]


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_max_coupling_preserves_both_marginals(alpha_s: float, alpha_t: float) -> None:
    for x_0 in range(K):
        pair = pair_law(alpha_s, alpha_t, x_0)
        assert_close(pair.sum(0), forward_row(alpha_s, x_0))
        assert_close(pair.sum(1), forward_row(alpha_t, x_0))


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_max_coupling_is_maximal(alpha_s: float, alpha_t: float) -> None:
    """P(x_s = x_t) reaches sum_x min(q_s, q_t), which the Markov coupling misses."""
    for x_0 in range(K):
        overlap = torch.minimum(forward_row(alpha_s, x_0), forward_row(alpha_t, x_0)).sum()
        assert_close(pair_law(alpha_s, alpha_t, x_0).diagonal().sum(), overlap)
        markov = forward_row(alpha_s, x_0) @ brute.kernel(alpha_t / alpha_s, brute.uniform_pi(K, 1)).diagonal()
        assert (markov < overlap - 1e-3) == (0 < alpha_s < 1)


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_max_coupling_pair_has_the_closed_form(alpha_s: float, alpha_t: float) -> None:
    """`eq:max-coupling-pair`."""
    for x_0 in range(K):
        clean = torch.eye(K, dtype=torch.float64)[x_0]
        stays = torch.eye(K, dtype=torch.float64)
        paper = alpha_t * torch.outer(clean, clean) + (alpha_s - alpha_t) / K * clean + (1 - alpha_s) / K * stays
        assert_close(pair_law(alpha_s, alpha_t, x_0), paper)


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_max_coupling_chain_preserves_p_s_when_averaged_over_the_joint_posterior(
    alpha_s: float, alpha_t: float
) -> None:
    p0, length = brute.random_p0(3, 2), 2
    pi = brute.uniform_pi(3, length)
    table = brute.joint(p0, pi, alpha_t)
    tokens = brute.sequences(3, length)
    process = tl.MaxCoupling(3, schedule=EXACT)
    noisy = every_state(3, length, alpha_t)
    law_s = torch.zeros(9, dtype=torch.float64)
    for row, x_0 in enumerate(tokens):
        each = process.bridge(noisy, time(alpha_s, noisy), x_0.expand(9, -1)).dense()
        law_s += table[row] @ (each[:, 0, :, None] * each[:, 1, None, :]).view(9, 9)
    assert_close(law_s, brute.marginal(p0, pi, alpha_s))
