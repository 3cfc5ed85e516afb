"""Rates are what the bridges become over an instant: lim (q(x_{t-h} = y | ...) ) / h for y != x_t."""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.grid import JUMPING, process_of
from tests.laws.helpers import EXACT, assert_close
from tokenloom.couplings.steps import rate_bound
from tokenloom.posteriors import Posterior

K, L = 3, 2
TIMES = [0.2, 0.5, 0.85]
STEPS = (4e-4, 2e-4, 1e-4)


def at(process: tl.Process, t: float, states: int, aux: Tensor | None = None) -> tl.Noisy:
    tokens = brute.sequences(states, L)
    times = torch.full((len(tokens),), t, dtype=torch.float64)
    return tl.Noisy(tokens, times, process.alpha(times), aux)


def off_diagonal(law: Tensor, tokens: Tensor) -> Tensor:
    return law.scatter(-1, tokens.unsqueeze(-1), 0.0)


def limit_at_zero(slope: Tensor, half: Tensor, quarter: Tensor) -> Tensor:
    """Richardson extrapolation of f(h)/h from steps h, h/2, h/4: the error falls to order h^3."""
    first, second = 2 * half - slope, 2 * quarter - half
    return (4 * second - first) / 3


def rate_as_limit(process: tl.Process, noisy: tl.Noisy, prediction: Posterior | Tensor) -> Tensor:
    laws = [process.bridge(noisy, noisy.t - h, prediction).dense() for h in STEPS]
    return limit_at_zero(*(off_diagonal(law, noisy.tokens) / h for law, h in zip(laws, STEPS, strict=True)))


def assert_limit(rates: Tensor, limit: Tensor) -> None:
    torch.testing.assert_close(rates, limit, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("t", TIMES)
@pytest.mark.parametrize(("noise", "coupling"), JUMPING)
def test_rates_are_limits_of_the_bridges_and_of_the_forward_transition(noise: str, coupling: str, t: float) -> None:
    """For any prediction; none exceeds the clock that proposes jumps.  Other schedules are in `test_grid.py`."""
    process, generator = process_of(noise, coupling), torch.Generator().manual_seed(12)
    count = process.num_states**L
    aux = torch.randint(0, K, (count, L), generator=generator) if process.lifted else None
    noisy = at(process, t, process.num_states, aux)
    logits = torch.randn(count, L, K, generator=generator, dtype=torch.float64)
    x_0 = torch.randint(0, K, (count, L), generator=generator)
    for endpoint in (tl.Denoiser(logits), tl.LeaveOneOut(logits), x_0):
        rates = process.reverse_rates(noisy, endpoint)
        assert_limit(rates.off_diagonal(), rate_as_limit(process, noisy, endpoint))
        leaving = rates.off_diagonal().sum(-1)
        assert bool((leaving <= rate_bound(process, noisy) * (1 + 1e-12)).all())
        torch.testing.assert_close(rates.elsewhere().sum(-1), leaving, rtol=1e-6, atol=0)  # float32 laws
    if process.markov:
        slopes = [off_diagonal(process.forward(noisy, noisy.t + h).dense(), noisy.tokens) / h for h in STEPS]
        rates = process.forward_rates(noisy)
        assert_limit(rates.off_diagonal(), limit_at_zero(*slopes))
        torch.testing.assert_close(rates.elsewhere().sum(-1), rates.off_diagonal().sum(-1), rtol=1e-6, atol=0)


@pytest.mark.parametrize("t", TIMES)
def test_reverse_rate_is_the_forward_rate_times_the_score(t: float) -> None:
    """R(x -> y) = Q(y -> x) p_t(y) / p_t(x), the time reversal itself, for the exact posterior of a p_0."""
    p0 = brute.random_p0(K, L)
    for process in (tl.Uniform(K, schedule=EXACT), tl.Interpolating(K, brute.random_pi(K, L), schedule=EXACT)):
        noisy = at(process, t, K)
        nu = tl.Oracle(p0, process).predict(noisy)
        score = tl.convert(nu, tl.Score, noisy.tokens, noisy.alpha_t, process).log_ratios.exp()
        back = process.forward_rates(noisy).dense().gather(-1, noisy.tokens.unsqueeze(-1))
        rates = process.reverse_rates(noisy, nu).off_diagonal()
        assert_close(rates, off_diagonal(back * score, noisy.tokens), "`eq:reverse-score`")


@pytest.mark.parametrize("t", TIMES)
def test_max_coupling_rates_reverse_each_other_given_x_0(t: float) -> None:
    """Q(x -> y) q_t(x) = R(y -> x) q_t(y) given x_0, and R is lambda [y = x_0] (`prop:uniform-max-coupling-rate`)."""
    process = tl.MaxCoupling(K, schedule=EXACT)
    tokens = torch.arange(K).unsqueeze(1)
    times = torch.full((K,), t, dtype=torch.float64)
    noisy = tl.Noisy(tokens, times, 1 - times)
    for clean in range(K):
        x_0 = torch.full((K, 1), clean)
        q = process.marginal(noisy, x_0).dense()[0, 0]
        forward = process.forward_rates(noisy, x_0).off_diagonal().squeeze(1)
        reverse = process.reverse_rates(noisy, x_0).off_diagonal().squeeze(1)
        assert_close(forward * q[:, None], (reverse * q[:, None]).T)
        expected = torch.zeros(K, K, dtype=torch.float64)
        expected[:, clean] = 1 / t
        expected[clean, clean] = 0
        assert_close(reverse, expected, "`prop:uniform-max-coupling-rate`")


@pytest.mark.parametrize("t", TIMES)
def test_time_rates_are_the_hazards_of_the_transition_times(t: float) -> None:
    """Down: the time bridge averaged over tau given tau <= t.  Up: the forward step averaged over tau given tau > t.

    With alpha = 1 - t both are uniform laws of tau, and the chance of a jump is exactly proportional to the step.
    """
    process = tl.MaskedUniform(K, schedule=EXACT)
    count = 100
    x_t = torch.arange(K).repeat_interleave(count).unsqueeze(1)
    grid = ((torch.arange(count, dtype=torch.float64) + 0.5) / count).repeat(K).unsqueeze(1)
    times = torch.full((len(x_t),), t, dtype=torch.float64)
    mu = tl.Denoiser(brute.random_pi(K, 1, seed=15).log().expand(len(x_t), 1, K))
    lost, h = tl.Noisy(x_t, times, 1 - times, t * grid), t / 10
    down = off_diagonal(process.bridge(lost, times - h, mu).dense(), x_t).view(K, count, K).mean(1) / h
    assert_close(process.reverse_rates(lost, mu).off_diagonal().view(K, count, K)[:, 0], down)
    kept, h = tl.Noisy(x_t, times, 1 - times, t + (1 - t) * grid), (1 - t) / 10
    up = off_diagonal(process.forward(kept, times + h).dense(), x_t).view(K, count, K).mean(1) / h
    assert_close(process.forward_rates(kept).off_diagonal().view(K, count, K)[:, 0], up)
    assert process.forward_rates(lost).off_diagonal().abs().max() == 0
    assert process.reverse_rates(kept, mu).off_diagonal().abs().max() == 0
