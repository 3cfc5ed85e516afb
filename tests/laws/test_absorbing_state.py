"""UDM as a mixture of absorbing-state processes, and what resampling the absorbing sequence recovers."""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close, assert_lifted_step, every_state, probabilities
from tests.statistics import assert_frequencies
from tokenloom.couplings.base import probability_lost

K, L = 3, 2
PROCESS = tl.AbsorbingUniform(K, schedule=EXACT)
STEPS = [(0.85, 0.6), (0.6, 0.25), (0.3, 0.0)]
SEQUENCES = brute.sequences(K, L)
NUMBER = K**L


def every_pair(alpha: float) -> tl.Noisy:
    """Every (x_t, U), U varying fastest."""
    tokens = SEQUENCES.repeat_interleave(NUMBER, 0)
    level = torch.full((len(tokens),), alpha, dtype=torch.float64)
    return tl.Noisy(tokens, 1 - level, level, SEQUENCES.repeat(NUMBER, 1))


def joint_posterior(p0: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """p(x_0 | x_t, U) as [x_t, U, x_0], and p(U | x_t) as [x_t, U], by summing over the definitions."""
    posterior, absorbing = [], []
    for u in SEQUENCES.tolist():
        table = brute.joint(p0, brute.point_pi(u, K), alpha)
        posterior.append((table / table.sum(0)).T.nan_to_num(0.0))
        absorbing.append(table.sum(0) / NUMBER)
    weights = torch.stack(absorbing, 1)
    return torch.stack(posterior, 1), weights / weights.sum(1, keepdim=True)


def over_sequences(each: Tensor) -> Tensor:
    """Independent positions as a law over sequences: [..., L, K] to [..., K^L]."""
    return (each[..., 0, :, None] * each[..., 1, None, :]).flatten(-2)


def resampling(alpha_s: float) -> Tensor:
    """p(U_s | x_0, x_s) as [x_0, x_s, U_s]: x_s where the package says that it is lost, a uniform token elsewhere."""
    x_0, x_s = SEQUENCES.repeat_interleave(NUMBER, 0), SEQUENCES.repeat(NUMBER, 1)
    level = torch.full((len(x_0),), alpha_s, dtype=torch.float64)
    lost = probability_lost(PROCESS, x_0, tl.Noisy(x_s, 1 - level, level)).unsqueeze(-1)
    each = lost * torch.nn.functional.one_hot(x_s, K) + (1 - lost) / K
    return over_sequences(each).view(NUMBER, NUMBER, NUMBER)


def uniform_bridge(alpha_s: float, alpha_t: float) -> Tensor:
    """q(x_s | x_0, x_t) of UDM from the package, as [x_t, x_0, x_s]."""
    noisy = every_pair(alpha_t)
    s = torch.full_like(noisy.t, 1 - alpha_s)
    assert noisy.aux is not None
    law = tl.Uniform(K, schedule=EXACT).bridge(tl.Noisy(noisy.tokens, noisy.t, noisy.alpha_t), s, noisy.aux)
    return over_sequences(law.dense()).view(NUMBER, NUMBER, NUMBER)


def lifted_kernel(p0: Tensor, alpha_s: float, alpha_t: float) -> Tensor:
    """The one-step transition of ReAUDM, as [x_t, U_t, x_s, U_s]."""
    posterior, _ = joint_posterior(p0, alpha_t)
    return torch.einsum("tuo,tos,osv->tusv", posterior, uniform_bridge(alpha_s, alpha_t), resampling(alpha_s))


@pytest.mark.parametrize("alpha", [*brute.ALPHAS, 0.0, 1.0])
def test_uniform_forward_law_is_a_mixture_of_absorbing_state_laws(alpha: float) -> None:
    noisy = every_pair(alpha)
    x_0 = noisy.tokens
    given_u = PROCESS.marginal(noisy, x_0).dense()
    averaged = over_sequences(given_u).view(NUMBER, NUMBER, NUMBER).mean(1)
    assert_close(averaged, brute.kernel(alpha, brute.uniform_pi(K, L)))


@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_absorbing_posterior_is_exact_and_degenerate_where_x_t_differs_from_u(alpha: float) -> None:
    p0 = brute.random_p0(K, L)
    noisy = every_pair(alpha)
    assert noisy.aux is not None
    predicted = tl.Oracle(p0, PROCESS, predicts=tl.Denoiser).predict(noisy)
    posterior, _ = joint_posterior(p0, alpha)
    folded = posterior.view(NUMBER**2, K, K)
    assert_close(probabilities(predicted), torch.stack([folded.sum(2), folded.sum(1)], 1))
    differs = noisy.tokens != noisy.aux
    assert_close(probabilities(predicted)[differs], torch.nn.functional.one_hot(noisy.tokens[differs], K).double())


@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_absorbing_posterior_depends_on_time_where_x_t_equals_u(alpha: float) -> None:
    """L = 1: p(x_0 = x_t | x_t = U) = p_0(x_t) / (1 - alpha_t (1 - p_0(x_t)))."""
    p0 = brute.random_p0(K, 1)
    tokens = torch.arange(K).unsqueeze(1)
    level = torch.full((K,), alpha, dtype=torch.float64)
    oracle = tl.Oracle(p0, PROCESS, predicts=tl.Denoiser)
    predicted = oracle.predict(tl.Noisy(tokens, 1 - level, level, tokens))
    own = probabilities(predicted).squeeze(1).diagonal()
    assert_close(own, p0 / (1 - alpha * (1 - p0)))
    assert (own - p0).abs().max() > 0.01


@pytest.mark.parametrize("alpha_s", [0.85, 0.25, 0.0, 1.0])
def test_resampling_law_is_bayes_rule(alpha_s: float) -> None:
    """p(U | x_0, x_s) = p(U) q(x_s | x_0, U) / q(x_s | x_0)."""
    table = torch.stack([brute.kernel(alpha_s, brute.point_pi(u, K)) for u in SEQUENCES.tolist()], -1)
    possible = table.sum(-1) > 0
    exact = table / table.sum(-1, keepdim=True)
    assert_close(resampling(alpha_s)[possible], exact[possible])


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_lifted_step_keeps_u_distributed_as_its_posterior(alpha_s: float, alpha_t: float) -> None:
    """sum_U p(U_t | x_t) p(x_s, U_s | x_t, U_t) = p(x_s | x_t) p(U_s | x_s) (`lem:lifted-process-marginalization`)."""
    p0 = brute.random_p0(K, L)
    before, after = (joint_posterior(p0, alpha)[1] for alpha in (alpha_t, alpha_s))
    reverse = brute.reverse_kernel(p0, brute.uniform_pi(K, L), alpha_s, alpha_t)
    assert_lifted_step(lifted_kernel(p0, alpha_s, alpha_t), before, after, reverse)


def test_resampled_absorbing_chain_has_the_joint_law_of_the_uniform_reverse_chain() -> None:
    """`prop:remasked-audm-udm-joint`, over the whole grid alpha = 0, 0.3, 0.65, 1."""
    p0, pi = brute.random_p0(K, L), brute.uniform_pi(K, L)
    grid = [0.0, 0.3, 0.65, 1.0]
    path = torch.diag(torch.full((NUMBER,), 1 / NUMBER, dtype=torch.float64))  # X_1 = U_1, uniform
    _, initial = joint_posterior(p0, 0.0)
    assert_close(path, torch.diag(brute.marginal(p0, pi, 0.0)))
    assert_close(initial, torch.eye(NUMBER, dtype=torch.float64))
    for index, (alpha_t, alpha_s) in enumerate(itertools.pairwise(grid)):
        flat = path.reshape(-1, NUMBER, NUMBER)
        path = torch.einsum("ptu,tusv->ptsv", flat, lifted_kernel(p0, alpha_s, alpha_t))
        path = path.view(*[NUMBER] * (index + 2), NUMBER)
    exact = brute.path_law(
        brute.marginal(p0, pi, 0.0),
        [brute.reverse_kernel(p0, pi, alpha_s, alpha_t) for alpha_t, alpha_s in itertools.pairwise(grid)],
    )
    assert_close(path.sum(-1), exact)


def test_drawn_absorbing_states_follow_their_law() -> None:
    """200,000 draws for each of x_s = x_0 and x_s != x_0; false-alarm rate 1e-6 each."""
    count = 200_000
    x_0 = torch.tensor([[0, 0]]).expand(count, 2).contiguous()
    x_s = torch.tensor([[0, 2]]).expand(count, 2).contiguous()
    s = torch.full((count,), 0.7, dtype=torch.float64)
    drawn = PROCESS.resample(x_0, x_s, s, torch.Generator().manual_seed(16))
    assert drawn is not None
    law = resampling(0.3)[0, 2].view(K, K)
    for position in range(2):
        assert_frequencies(torch.bincount(drawn[:, position], minlength=K), law.sum(1 - position))


@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_uniform_denoiser_is_the_absorbing_posterior_averaged_over_u(alpha: float) -> None:
    """`eq:audm-denoiser-mixture-app`."""
    p0 = brute.random_p0(K, L)
    posterior, absorbing = joint_posterior(p0, alpha)
    averaged = torch.einsum("tuo,tu->to", posterior, absorbing)
    exact = (brute.joint(p0, brute.uniform_pi(K, L), alpha) / brute.marginal(p0, brute.uniform_pi(K, L), alpha)).T
    assert_close(averaged, exact)
    noisy = every_state(K, L, alpha)
    predicted = tl.Oracle(p0, tl.Uniform(K, schedule=EXACT), predicts=tl.Denoiser).predict(noisy)
    folded = averaged.view(NUMBER, K, K)
    assert_close(probabilities(predicted), torch.stack([folded.sum(2), folded.sum(1)], 1))
