"""Denoiser, leave-one-out posterior and score: the maps between them, against sums over all sequences."""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.grid import Cell
from tests.laws.helpers import EXACT, assert_close, every_state, probabilities
from tokenloom.posteriors import Posterior, convert_at

K, L = 3, 3
REPRESENTATIONS: tuple[type[Posterior], ...] = (tl.Denoiser, tl.LeaveOneOut, tl.Score)


def values(posterior: Posterior) -> Tensor:
    return posterior.log_ratios.exp() if isinstance(posterior, tl.Score) else probabilities(posterior)


def readable(cell: Cell, source: type[Posterior]) -> Tensor:
    """Flags of the positions where a representation says what the others say.

    A score says nothing of x_0 at level 0, and a denoiser nothing of the other positions where x_t reveals x_0.
    """
    if source is tl.Score:
        return cell.process.level(cell.noisy) > 0
    return cell.process.evidence(cell.noisy).isfinite() if source is tl.Denoiser else torch.ones_like(cell.noisy.free)


def test_every_conversion_gives_the_enumerated_posterior(cell: Cell) -> None:
    own = cell.conditional.gather(-1, cell.noisy.tokens.unsqueeze(-1))
    truth: list[Posterior] = [
        tl.Denoiser(cell.denoiser.log()),
        tl.LeaveOneOut(cell.leave_one_out.log()),
        tl.Score((cell.conditional / own).log()),
    ]
    for source, (expected, target) in itertools.product(truth, zip(truth, REPRESENTATIONS, strict=True)):
        found = convert_at(source, target, cell.noisy, cell.process)
        assert type(found) is target
        where = readable(cell, type(source))
        assert_close(values(found)[where], values(expected)[where], "`prop:loo_to_denoiser`, `eq:score-ratio-loo`")


def test_round_trips_return_the_prediction_whether_or_not_it_is_a_true_posterior(cell: Cell) -> None:
    """The maps are bijections of the simplex, not only right at the optimum."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(*cell.noisy.tokens.shape, cell.process.vocab_size, generator=generator, dtype=torch.float64)
    for start, middle in itertools.product((tl.Denoiser(logits), tl.LeaveOneOut(logits)), REPRESENTATIONS):
        away = convert_at(start, middle, cell.noisy, cell.process)
        back = convert_at(away, type(start), cell.noisy, cell.process)
        where = readable(cell, type(start)) & readable(cell, middle)
        assert_close(probabilities(back)[where], probabilities(start)[where], "a conversion there and back")


@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_uniform_conversions_have_the_closed_forms_of_the_paper(alpha: float) -> None:
    """`eq:loo-to-denoiser-uniform` and `eq:denoiser-to-loo`."""
    process, noisy = tl.Uniform(K, schedule=EXACT), every_state(K, L, alpha)
    nu = probabilities(tl.LeaveOneOut(torch.randn(len(noisy.tokens), L, K, dtype=torch.float64)))
    own = torch.nn.functional.one_hot(noisy.tokens, K)
    at_own = (nu * own).sum(-1, keepdim=True)
    forward = ((1 - alpha) * nu + K * alpha * at_own * own) / (1 - alpha + K * alpha * at_own)
    top = 1 + (K - 1) * alpha
    backward = (top * nu - K * alpha * at_own * own) / (top - K * alpha * at_own)
    to_denoiser = tl.convert(tl.LeaveOneOut(nu.log()), tl.Denoiser, noisy.tokens, noisy.alpha_t, process)
    to_leave_one_out = tl.convert(tl.Denoiser(nu.log()), tl.LeaveOneOut, noisy.tokens, noisy.alpha_t, process)
    assert_close(probabilities(to_denoiser), forward, "`eq:loo-to-denoiser-uniform`")
    assert_close(probabilities(to_leave_one_out), backward, "`eq:denoiser-to-loo`")


@pytest.mark.asks
@pytest.mark.parametrize("target", [tl.LeaveOneOut, tl.Score])
def test_masked_denoiser_has_no_leave_one_out_posterior_where_visible(
    target: type[tl.LeaveOneOut] | type[tl.Score],
) -> None:
    process = tl.Masked(K, schedule=EXACT)
    tokens = torch.tensor([[K, 1, K]])
    denoiser = tl.Denoiser(torch.zeros(1, L, K, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"row 0, position 1 has no leave-one-out posterior: its own token 1 reveals"):
        tl.convert(denoiser, target, tokens, torch.tensor([0.3], dtype=torch.float64), process)


@pytest.mark.asks
def test_nothing_but_the_score_survives_the_extremes_of_alpha_unconverted() -> None:
    """alpha = 1: the own token reveals x_0.  alpha = 0: it says nothing, and the score neither."""
    process, tokens = tl.Uniform(K, schedule=EXACT), torch.tensor([[0, 1, 2]])
    logits = torch.randn(1, L, K, dtype=torch.float64)
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    mu = tl.convert(tl.LeaveOneOut(logits), tl.Denoiser, tokens, one, process)
    assert_close(probabilities(mu), torch.nn.functional.one_hot(tokens, K).double())
    with pytest.raises(ValueError, match="no leave-one-out posterior"):
        tl.convert(mu, tl.LeaveOneOut, tokens, one, process)
    assert_close(
        probabilities(tl.convert(tl.LeaveOneOut(logits), tl.Denoiser, tokens, zero, process)), torch.softmax(logits, -1)
    )
    flat = tl.convert(tl.LeaveOneOut(logits), tl.Score, tokens, zero, process)
    assert_close(flat.log_ratios, torch.zeros_like(logits))
    with pytest.raises(ValueError, match="says nothing of x_0"):
        tl.convert(flat, tl.LeaveOneOut, tokens, zero, process)


@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_denoiser_factors_into_planner_and_denoiser(alpha: float) -> None:
    """mu = (1 - a) [. = x_t] + a d, with a = P(position was corrupted | x_t), d the posterior given that it was.

    The planner is read from the leave-one-out posterior, d is that posterior itself (`eq:planned-factorized-denoiser`).
    """
    p0, pi = brute.random_p0(K, L), brute.uniform_pi(K, L)
    noisy = every_state(K, L, alpha)
    tokens = noisy.tokens
    flags = brute.sequences(2, L)
    planner = torch.zeros(K**L, L, dtype=torch.float64)
    given = torch.zeros(K**L, L, K, dtype=torch.float64)
    p_t = brute.marginal(p0, pi, alpha)
    for x_0, weight in zip(tokens, p0.flatten(), strict=True):
        for corrupted in flags:
            number = int(corrupted.sum())
            kept = ((x_0 == tokens) | (corrupted == 1)).all(1)
            chance = weight * kept * alpha ** (L - number) * ((1 - alpha) / K) ** number / p_t
            planner += chance[:, None] * corrupted
            given[:, torch.arange(L), x_0] += chance[:, None] * corrupted
    given = given / planner.unsqueeze(-1)
    process = tl.Uniform(K, schedule=EXACT)
    nu = tl.Oracle(p0, process).predict(noisy)
    assert_close(probabilities(nu), given)
    own = probabilities(nu).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    assert_close((1 - alpha) / K / (alpha * own + (1 - alpha) / K), planner)
    mu = tl.convert(nu, tl.Denoiser, tokens, noisy.alpha_t, process)
    mixed = (1 - planner).unsqueeze(-1) * torch.nn.functional.one_hot(tokens, K) + planner.unsqueeze(-1) * given
    assert_close(probabilities(mu), mixed, "`eq:planned-factorized-denoiser`")
