"""What the paper says of its mathematics alone: no line of the package runs here, only enumeration."""

import torch

from tests import brute
from tests.laws.helpers import assert_close

K = 3


def test_naive_masked_extension_breaks_proposition_1() -> None:
    """gamma_2 nu + (1 - gamma_2) x_t without the case split differs from the exact transition at visible positions."""
    p0, pi = brute.random_p0(K, 3), brute.point_pi([K] * 3, K + 1)
    alpha_s, alpha_t = 0.6, 0.25
    possible = brute.marginal(p0, pi, alpha_t) > 0
    nu = brute.leave_one_out(p0, pi, alpha_t)[possible]
    tokens = brute.sequences(K + 1, 3)[possible]
    gamma_2 = (alpha_s - alpha_t) / (1 - alpha_t)
    naive = gamma_2 * nu + (1 - gamma_2) * torch.nn.functional.one_hot(tokens, K + 1).double()
    gap = (naive - brute.reverse_marginals(p0, pi, alpha_s, alpha_t)[possible]).abs().amax(-1)
    assert_close(gap[tokens == K], torch.zeros_like(gap[tokens == K]))
    assert gap[tokens != K].max() > 0.1


def test_fixed_absorbing_sequence_gives_another_joint_law_with_the_same_ends() -> None:
    """Without resampling the marginals are UDM's but the path is not: the control for the law above."""
    p0, pi, every = brute.random_p0(K, 2), brute.uniform_pi(K, 2), brute.sequences(K, 2).tolist()
    alpha_t, alpha_s = 0.25, 0.6
    given = torch.stack([brute.reverse_kernel(p0, brute.point_pi(u, K), alpha_s, alpha_t) for u in every]).nan_to_num(
        0.0
    )
    at_t = torch.stack([brute.marginal(p0, brute.point_pi(u, K), alpha_t) for u in every]) / K**2
    pair = torch.einsum("ut,uts->ts", at_t, given)
    exact = brute.marginal(p0, pi, alpha_t)[:, None] * brute.reverse_kernel(p0, pi, alpha_s, alpha_t)
    assert_close(pair.sum(0), exact.sum(0))
    assert_close(pair.sum(1), exact.sum(1))
    assert (pair - exact).abs().max() > 0.005
