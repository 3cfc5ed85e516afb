"""Bridges on one position, against Bayes' rule on explicit matrices."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close, every_state, probabilities, time

K = 4
STEPS = [(0.85, 0.6), (0.6, 0.25), (0.3, 0.0), (1.0, 0.4)]


def pairs(alpha: float, states: int, aux: int | None = None) -> tuple[tl.Noisy, Tensor]:
    """Every (x_0, x_t) as a batch of one-position states."""
    grid = torch.cartesian_prod(torch.arange(K), torch.arange(states))
    level = torch.full((len(grid),), alpha, dtype=torch.float64)
    absorbing = None if aux is None else torch.full((len(grid), 1), aux)
    return tl.Noisy(grid[:, 1:], 1 - level, level, absorbing), grid[:, :1]


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_uniform_bridge_is_bayes_rule_under_both_extensions(alpha_s: float, alpha_t: float) -> None:
    process = tl.Uniform(K, schedule=EXACT)
    noisy, x_0 = pairs(alpha_t, K)
    pi = brute.uniform_pi(K, 1)[0]
    exact = torch.stack(
        [brute.bridge(int(clean), int(x_t), pi, alpha_s, alpha_t) for clean, x_t in zip(x_0, noisy.tokens, strict=True)]
    )
    point = torch.nn.functional.one_hot(x_0, K).double().log()
    for prediction in (x_0, tl.Denoiser(point), tl.LeaveOneOut(point)):
        law = process.bridge(noisy, time(alpha_s, noisy), prediction).log_probs().exp()
        assert_close(law.squeeze(1), exact)


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_barycentric_extension_averages_the_bridge_over_the_prediction(alpha_s: float, alpha_t: float) -> None:
    process = tl.Uniform(K, schedule=EXACT)
    noisy = every_state(K, 1, alpha_t)
    mu = brute.random_pi(K, K, seed=6)
    law = process.bridge(noisy, time(alpha_s, noisy), tl.Denoiser(mu.unsqueeze(1).log())).log_probs().exp().squeeze(1)
    pi = brute.uniform_pi(K, 1)[0]
    averaged = torch.stack(
        [
            sum((mu[x_t, x_0] * brute.bridge(x_0, x_t, pi, alpha_s, alpha_t) for x_0 in range(K)), torch.zeros(K))
            for x_t in range(K)
        ]
    )
    assert_close(law, averaged)


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
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
    assert_close(weights, torch.stack(paper, -1))


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_converted_denoiser_gives_the_same_bridge_through_either_extension(alpha_s: float, alpha_t: float) -> None:
    process = tl.Uniform(K, schedule=EXACT)
    noisy = every_state(K, 2, alpha_t)
    nu = tl.LeaveOneOut(torch.randn(K**2, 2, K, generator=torch.Generator().manual_seed(8), dtype=torch.float64))
    mu = tl.convert(nu, tl.Denoiser, noisy.tokens, noisy.alpha_t, process)
    s = time(alpha_s, noisy)
    assert_close(process.bridge(noisy, s, nu).log_probs().exp(), process.bridge(noisy, s, mu).log_probs().exp())


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_masked_bridge_is_affine_and_completed_by_staying(alpha_s: float, alpha_t: float) -> None:
    """`eq:mdm-bridge`, for a prediction that gives the visible token no mass at all."""
    process = tl.Masked(K, schedule=EXACT)
    noisy = every_state(K + 1, 1, alpha_t)
    nu = brute.random_pi(K, K + 1, seed=9)
    nu[range(K), range(K)] = 0
    nu = nu / nu.sum(-1, keepdim=True)
    logits, s = nu.unsqueeze(1).log(), time(alpha_s, noisy)
    gamma_2 = (alpha_s - alpha_t) / (1 - alpha_t)
    expected = torch.eye(K + 1, dtype=torch.float64)
    expected[K] = torch.cat([gamma_2 * nu[K], torch.tensor([1 - gamma_2], dtype=torch.float64)])
    for prediction in (tl.Denoiser(logits), tl.LeaveOneOut(logits)):
        assert_close(process.bridge(noisy, s, prediction).dense().squeeze(1), expected)


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_mask_inside_the_vocabulary_never_receives_predicted_mass(alpha_s: float, alpha_t: float) -> None:
    process = tl.Masked(K, mask_id=2, schedule=EXACT)
    level = torch.tensor([alpha_t], dtype=torch.float64)
    noisy = tl.Noisy(torch.tensor([[2]]), 1 - level, level)
    logits = torch.zeros(1, 1, K, dtype=torch.float64)
    law = process.bridge(noisy, time(alpha_s, noisy), tl.Denoiser(logits)).log_probs().exp().flatten()
    gamma_2 = (alpha_s - alpha_t) / (1 - alpha_t)
    assert_close(law, torch.tensor([gamma_2 / 3, gamma_2 / 3, 1 - gamma_2, gamma_2 / 3], dtype=torch.float64))


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_absorbing_bridge_is_bayes_rule_given_the_absorbing_state(alpha_s: float, alpha_t: float) -> None:
    """`eq:audm-bridge`, for every pair (x_0, x_t) of positive probability and every absorbing state."""
    process = tl.AbsorbingUniform(K, schedule=EXACT)
    for absorbing in range(K):
        pi = brute.point_pi([absorbing], K)[0]
        noisy, x_0 = pairs(alpha_t, K, absorbing)
        supported = (noisy.tokens == absorbing) | ((noisy.tokens == x_0) & (alpha_t > 0))
        law = process.bridge(
            noisy, time(alpha_s, noisy), tl.Denoiser(torch.nn.functional.one_hot(x_0, K).double().log())
        )
        dense = law.log_probs().exp().squeeze(1)
        for row in supported.squeeze(1).nonzero().flatten().tolist():
            exact = brute.bridge(int(x_0[row]), int(noisy.tokens[row]), pi, alpha_s, alpha_t)
            assert_close(dense[row], exact)


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_absorbing_bridge_interpolates_prediction_and_absorbing_state(alpha_s: float, alpha_t: float) -> None:
    process = tl.AbsorbingUniform(K, schedule=EXACT)
    noisy, _ = pairs(alpha_t, K, 1)
    mu = brute.random_pi(K, len(noisy.tokens), seed=10)
    law = process.bridge(noisy, time(alpha_s, noisy), tl.Denoiser(mu.unsqueeze(1).log())).log_probs().exp().squeeze(1)
    gamma_2 = (alpha_s - alpha_t) / (1 - alpha_t)
    absorbed = gamma_2 * mu + (1 - gamma_2) * torch.eye(K, dtype=torch.float64)[1]
    stayed = torch.nn.functional.one_hot(noisy.tokens.squeeze(1), K).double()
    assert_close(law, torch.where(noisy.tokens == 1, absorbed, stayed))


def test_time_bridge_jumps_to_the_prediction_exactly_when_its_time_lies_in_the_step() -> None:
    process = tl.MaskedUniform(K, schedule=EXACT)
    tau = torch.tensor([[0.2, 0.3, 0.5, 0.7, 0.8]], dtype=torch.float64)
    t, s = torch.tensor([0.7], dtype=torch.float64), torch.tensor([0.3], dtype=torch.float64)
    noisy = tl.Noisy(torch.tensor([[0, 1, 2, 3, 0]]), t, 1 - t, tau)
    mu = tl.Denoiser(torch.randn(1, 5, K, dtype=torch.float64))
    law = process.bridge(noisy, s, mu).log_probs().exp()
    jumps = torch.tensor([False, False, True, True, False])
    assert_close(law[0, jumps], probabilities(mu)[0, jumps])
    assert_close(law[0, ~jumps], torch.nn.functional.one_hot(noisy.tokens[0, ~jumps], K).double())


@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_forward_transition_and_marginal_compose(alpha_s: float, alpha_t: float) -> None:
    """Chapman-Kolmogorov: q_{s|0} followed by q_{t|s} is q_{t|0}, for every Markov process."""
    for process in (
        tl.Uniform(K, schedule=EXACT),
        tl.Masked(K, schedule=EXACT),
        tl.Interpolating(K, brute.random_pi(K, 1), schedule=EXACT),
    ):
        start = every_state(K, 1, alpha_s)
        middle = every_state(process.num_states, 1, alpha_s)
        end = every_state(K, 1, alpha_t)
        to_s = process.marginal(start, start.tokens).dense().squeeze(1)
        to_t = process.forward(middle, time(alpha_t, middle)).dense().squeeze(1)
        assert_close(to_s @ to_t, process.marginal(end, end.tokens).dense().squeeze(1))


def test_given_positions_stay_whatever_the_prediction() -> None:
    generator = torch.Generator().manual_seed(11)
    x_0 = torch.randint(0, K, (64, 6), generator=generator)
    given = torch.rand(64, 6, generator=generator) < 0.5
    t = torch.full((64,), 0.9, dtype=torch.float64)
    processes = [tl.Uniform(K), tl.Masked(K), tl.MaxCoupling(K), tl.AbsorbingUniform(K), tl.MaskedUniform(K)]
    for process in (*processes, tl.Interpolating(K, brute.random_pi(K, 6))):
        noisy = process.corrupt(x_0, t, generator, given)
        assert torch.equal(noisy.tokens[given], x_0[given])
        assert (noisy.tokens[~given] != x_0[~given]).double().mean() > 0.5
        stepped = process.bridge(noisy, t / 2, tl.Denoiser(torch.zeros(64, 6, K))).draw(generator)
        assert torch.equal(stepped[given], x_0[given])
        rates = process.reverse_rates(noisy, tl.Denoiser(torch.zeros(64, 6, K))).off_diagonal()
        assert rates[given].abs().max() == 0
        assert rates[~given].sum() > 0
