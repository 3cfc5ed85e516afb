"""Every formula in float32, at the extremes: finite, and within 1e-4 (relative) of float64 on the same input."""

import itertools
from collections.abc import Callable
from functools import cache, partial

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.laws.helpers import EXACT
from tokenloom.couplings.base import probability_lost

ALPHAS = [0.0, 1e-7, 1e-3, 0.5, 1 - 1e-3, 1 - 1e-7, 1.0]
SIZES = [2, 27, 50257, 262144]
STEPS = [(alpha_s, alpha_t) for alpha_t, alpha_s in itertools.combinations(ALPHAS, 2)]
RELATIVE = 1e-4
Kind = type[tl.LeaveOneOut] | type[tl.Denoiser]
KINDS: tuple[Kind, ...] = (tl.LeaveOneOut, tl.Denoiser)


def assert_accurate(single: Tensor, double: Tensor) -> None:
    """Relative to float64, below the smallest normal float32 in absolute terms."""
    assert not single.isnan().any()
    error = (single.double() - double).abs()
    allowed = RELATIVE * double.abs() + 1e-37
    assert (error <= allowed).all(), f"relative error {(error / double.abs().clamp(min=1e-37)).max():.1e}"


def state(size: int, alpha: float, aux: Tensor | None = None) -> tl.Noisy:
    """One row: a likely token, an unlikely one and one in between."""
    level = torch.tensor([alpha], dtype=torch.float32)
    return tl.Noisy(torch.tensor([[0, size - 1, size // 2]]), 1 - level, level, aux)


@cache
def logits(size: int) -> Tensor:
    """Peaked rows, probabilities from near 1 down to about 1e-12 / K."""
    generator = torch.Generator().manual_seed(19)
    values = 4 * torch.randn(1, 3, size, generator=generator)
    values[..., 0] += 8
    values[..., -1] -= 8
    return values


@cache
def own_mass(size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What the logits give to the tokens of `state`, and what to all others."""
    law, tokens = tl.LeaveOneOut(logits(size).to(dtype)), state(size, 0.5).tokens
    return law.probability_of(tokens), law.probability_of_others(tokens)


def in_double(noisy: tl.Noisy) -> tl.Noisy:
    return tl.Noisy(noisy.tokens, noisy.t.double(), noisy.alpha_t.double(), noisy.aux)


def output(posterior: tl.Denoiser | tl.LeaveOneOut | tl.Score) -> Tensor:
    return posterior.log_ratios.exp() if isinstance(posterior, tl.Score) else posterior.log_probs.exp()


def both(law: Callable[[tl.Noisy, Tensor], Tensor], noisy: tl.Noisy, values: Tensor) -> None:
    assert_accurate(law(noisy, values), law(in_double(noisy), values.double()))


def through(process: tl.Process, path: tuple[type, ...], noisy: tl.Noisy, values: Tensor) -> Tensor:
    """The prediction with these values, converted from each representation of a path to the next."""
    posterior = path[0](values)
    for step in path[1:]:
        posterior = tl.convert(posterior, step, noisy.tokens, noisy.alpha_t, process)
    return output(posterior)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_conversions_hold_in_float32(size: int, alpha: float) -> None:
    process, noisy, values = tl.Uniform(size), state(size, alpha), logits(size)
    sources = KINDS if alpha < 1 else (tl.LeaveOneOut,)
    for source, target in itertools.product(sources, (tl.Denoiser, tl.LeaveOneOut, tl.Score)):
        both(partial(through, process, (source, target)), noisy, values)
    both(lambda at, start: tl.conditional_log_probs(tl.LeaveOneOut(start), at, process).exp(), noisy, values)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("alpha", ALPHAS[1:])
def test_score_converts_back_in_float32(size: int, alpha: float) -> None:
    """On the same float32 score the result is that of float64, down to its tail; at small alpha nothing is lost."""
    process, noisy, values = tl.Uniform(size), state(size, alpha), logits(size)
    score = tl.convert(tl.LeaveOneOut(values), tl.Score, noisy.tokens, noisy.alpha_t, process)
    back = partial(through, process, (tl.Score, tl.LeaveOneOut))
    both(back, noisy, score.log_ratios)
    start = torch.softmax(values.double(), -1)
    assert ((back(noisy, score.log_ratios) - start).abs() <= 1e-4 * start + 1e-6).all()


def chains(size: int) -> list[tl.Process]:
    return [tl.Uniform(size, schedule=EXACT), tl.MaxCoupling(size, schedule=EXACT)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("alpha_s", "alpha_t"), STEPS)
def test_bridge_weights_hold_in_float32(size: int, alpha_s: float, alpha_t: float) -> None:
    noisy, s = state(size, alpha_t), 1 - torch.tensor([alpha_s], dtype=torch.float32)
    for process, kind in itertools.product(chains(size), KINDS):
        single = process.bridge(noisy, s, kind(logits(size))).weights
        double = process.bridge(in_double(noisy), s.double(), kind(logits(size).double())).weights
        assert_accurate(single, double)
        assert_accurate(single.sum(-1), torch.ones_like(double[..., 0]))
        torch.testing.assert_close(double, textbook_bridge(process, noisy, s, kind), rtol=1e-9, atol=1e-14)


def textbook_bridge(process: tl.Process, noisy: tl.Noisy, s: Tensor, kind: Kind) -> Tensor:
    """The weights of stay, prediction and noise in float64, with nothing subtracted except levels."""
    size, alpha_s, alpha_t = process.vocab_size, 1 - s.double(), noisy.alpha_t.double()
    p, others = own_mass(size, torch.float64)
    kept, lost = alpha_t / alpha_s, (alpha_s - alpha_t) / alpha_s
    if alpha_t == 1:
        return torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).expand(*p.shape, 3)
    m_s, m_t = (1 - alpha_s) / size, (1 - alpha_t) / size
    renews = process.coupling == tl.couplings.Markov()
    if kind is tl.LeaveOneOut:
        new = lost / size if renews else (alpha_s - alpha_t) / size
        stay = alpha_t * p + (kept * m_s if renews else m_s)
        parts = [stay, alpha_s * new if renews else new, (1 - alpha_s) * new if renews else 0 * new]
        return torch.stack([part.expand_as(p) for part in parts], -1) / (alpha_t * p + m_t).unsqueeze(-1)
    gamma, fresh = (alpha_s - alpha_t) / (1 - alpha_t), lost * (1 - alpha_s) / (1 - alpha_t)
    if not renews:
        parts = [(1 - alpha_s) / (1 - alpha_t), gamma, 0 * gamma]
    else:
        same = alpha_t + m_t
        stay = kept * (1 - alpha_s) / (1 - alpha_t) + fresh * alpha_t / same * p
        parts = [stay, gamma, fresh * others + fresh * m_t / same * p]
    return torch.stack([part.expand_as(p) for part in parts], -1)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("t", [1e-6, 1e-3, 0.5, 1 - 1e-3, 1.0])
@pytest.mark.parametrize("step", [1e-3, 0.5])
def test_public_laws_hold_for_float32_times_and_logits(size: int, t: float, step: float) -> None:
    """Down to a thousandth of t: the levels of t and s keep the digits that tell them apart."""
    values, x_t = logits(size), torch.tensor([[0, size - 1, size // 2]])
    times = torch.tensor([t], dtype=torch.float32)
    s = times - step * times
    for process in (tl.Uniform(size), tl.MaxCoupling(size)):
        single = tl.Noisy(x_t, times, process.alpha(times))
        double = tl.Noisy(x_t, times.double(), process.alpha(times.double()))
        mu, exact = tl.Denoiser(values), tl.Denoiser(values.double())
        assert_accurate(process.marginal(single, mu).dense(), process.marginal(double, exact).dense())
        assert_accurate(process.bridge(single, s, mu).dense(), process.bridge(double, s.double(), exact).dense())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_resampling_laws_hold_in_float32(size: int, alpha: float) -> None:
    """P(lost) = (1 - alpha) / (1 + (K - 1) alpha) where a token is its clean one, else 1."""
    x_0, x_s = torch.tensor([[0, 0]]), torch.tensor([[0, 1]])
    level = torch.tensor([alpha], dtype=torch.float32)
    noisy, exact = tl.Noisy(x_s, 1 - level, level), level.double()[:, None]
    expected = torch.cat([(1 - exact) / (1 + (size - 1) * exact), torch.ones_like(exact)], 1)
    for process in (tl.AbsorbingUniform(size, schedule=EXACT), tl.MaskedUniform(size, schedule=EXACT)):
        assert_accurate(probability_lost(process, x_0, noisy), expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("alpha", [alpha for alpha in ALPHAS if 0 < alpha < 1])
def test_rates_hold_in_float32(size: int, alpha: float) -> None:
    """alpha = 0 and alpha = 1 are left out: there the rates themselves are infinite."""
    noisy = state(size, alpha)
    for process, kind in itertools.product(chains(size), KINDS):
        single = process.reverse_rates(noisy, kind(logits(size))).weights
        double = process.reverse_rates(in_double(noisy), kind(logits(size).double())).weights
        assert_accurate(single, double)
        torch.testing.assert_close(double, textbook_rates(process, noisy, kind), rtol=1e-9, atol=1e-14)


def textbook_rates(process: tl.Process, noisy: tl.Noisy, kind: Kind) -> Tensor:
    """The rates of jumps to the prediction and to the noise in float64, for alpha' = -1."""
    size, alpha = process.vocab_size, noisy.alpha_t.double()
    p, others = own_mass(size, torch.float64)
    mass = (1 - alpha) / size
    if kind is tl.LeaveOneOut:
        predicted = 1 / size / (alpha * p + mass)
        noise = predicted / alpha * (1 - alpha)
    else:
        predicted = (1 / (1 - alpha)).expand_as(p)
        noise = 1 / alpha * (others + p * mass / (alpha + mass))
    if process.coupling != tl.couplings.Markov():
        noise = torch.zeros_like(noise)
    return torch.stack([torch.zeros_like(noise), predicted, noise], -1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_normalised_in_float32(dtype: torch.dtype) -> None:
    values = logits(27).to(dtype)
    for representation in (tl.Denoiser, tl.LeaveOneOut):
        log_probs = representation(values).log_probs
        assert log_probs.dtype == torch.float32
        torch.testing.assert_close(log_probs, torch.log_softmax(values.float(), -1))
