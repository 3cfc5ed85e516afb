"""Denoiser, leave-one-out posterior and score: the maps between them, against sums over all sequences."""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close, every_state, probabilities
from tokenloom.posteriors import Posterior

K, L = 3, 3
REPRESENTATIONS = (tl.Denoiser, tl.LeaveOneOut, tl.Score)


def score_table(p0: Tensor, pi: Tensor, alpha: float) -> Tensor:
    """p_t(y) / p_t(x_t) for y that differs from x_t at one position, straight from the marginals."""
    length, states = pi.shape
    tokens = brute.sequences(states, length)
    p_t = brute.marginal(p0, pi, alpha).view([states] * length)
    table = torch.zeros(len(tokens), length, states, dtype=torch.float64)
    for position, state in itertools.product(range(length), range(states)):
        moved = tokens.clone()
        moved[:, position] = state
        table[:, position, state] = p_t[moved.unbind(1)] / p_t[tokens.unbind(1)]
    return table


def full_support() -> list[tuple[tl.Process, Tensor]]:
    return [
        (tl.Uniform(K, schedule=EXACT), brute.uniform_pi(K, L)),
        (tl.Interpolating(K, brute.random_pi(K, L), schedule=EXACT), brute.random_pi(K, L)),
    ]


def truth(representation: type, p0: Tensor, pi: Tensor, alpha: float) -> Posterior:
    if representation is tl.Denoiser:
        return tl.Denoiser(brute.denoiser(p0, pi, alpha).log())
    if representation is tl.LeaveOneOut:
        return tl.LeaveOneOut(brute.leave_one_out(p0, pi, alpha).log())
    return tl.Score(score_table(p0, pi, alpha).log())


def values(posterior: Posterior) -> Tensor:
    return posterior.log_ratios.exp() if isinstance(posterior, tl.Score) else probabilities(posterior)


@pytest.mark.parametrize("case", full_support(), ids=lambda case: case[0].title)
@pytest.mark.parametrize("alpha", brute.ALPHAS)
@pytest.mark.parametrize(("source", "target"), list(itertools.product(REPRESENTATIONS, REPRESENTATIONS)))
def test_every_conversion_gives_the_enumerated_posterior(
    case: tuple[tl.Process, Tensor],
    alpha: float,
    source: type,
    target: type[Posterior],
) -> None:
    process, pi = case
    p0, noisy = brute.random_p0(K, L), every_state(K, L, alpha)
    converted = tl.convert(truth(source, p0, pi, alpha), target, noisy.tokens, noisy.alpha_t, process)
    assert type(converted) is target
    assert_close(
        values(converted), values(truth(target, p0, pi, alpha)), "`prop:loo_to_denoiser`, `eq:score-ratio-loo`"
    )


@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_round_trips_return_the_prediction_whether_or_not_it_is_a_true_posterior(alpha: float) -> None:
    """The maps are bijections of the simplex, not only right at the optimum."""
    process, noisy = tl.Uniform(K, schedule=EXACT), every_state(K, L, alpha)
    logits = torch.randn(len(noisy.tokens), L, K, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for start in (tl.Denoiser(logits), tl.LeaveOneOut(logits)):
        for middle in REPRESENTATIONS:
            away = tl.convert(start, middle, noisy.tokens, noisy.alpha_t, process)
            back = tl.convert(away, type(start), noisy.tokens, noisy.alpha_t, process)
            assert_close(probabilities(back), probabilities(start))


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


@pytest.mark.parametrize("mask_id", [None, 1])
@pytest.mark.parametrize("alpha", brute.ALPHAS)
def test_masked_conversions_agree_with_enumeration(alpha: float, mask_id: int | None) -> None:
    """From the leave-one-out posterior everything follows, visible positions included, wherever the mask id lies."""
    p0 = brute.random_p0(K, L)
    if mask_id is not None:
        for axis in range(L):
            p0 = p0.index_fill(axis, torch.tensor([mask_id]), 0.0)
        p0 = p0 / p0.sum()
    process = tl.Masked(K, mask_id=mask_id, schedule=EXACT)
    pi = brute.point_pi([K if mask_id is None else mask_id] * L, process.num_states)
    noisy = every_state(process.num_states, L, alpha)
    possible = brute.marginal(p0, pi, alpha) > 0
    noisy = tl.Noisy(noisy.tokens[possible], noisy.t[possible], noisy.alpha_t[possible])
    nu = tl.LeaveOneOut(brute.leave_one_out(p0, pi, alpha)[possible][..., :K].log())
    mu = tl.convert(nu, tl.Denoiser, noisy.tokens, noisy.alpha_t, process)
    assert_close(probabilities(mu), brute.denoiser(p0, pi, alpha)[possible][..., :K])
    score = tl.convert(nu, tl.Score, noisy.tokens, noisy.alpha_t, process)
    assert_close(values(score), score_table(p0, pi, alpha)[possible])
    assert_close(
        probabilities(tl.convert(score, tl.LeaveOneOut, noisy.tokens, noisy.alpha_t, process)), nu.log_probs.exp()
    )


def test_masked_denoiser_and_leave_one_out_coincide_where_masked() -> None:
    process = tl.Masked(K, schedule=EXACT)
    tokens = torch.full((2, L), K)
    logits = torch.randn(2, L, K, dtype=torch.float64)
    alpha = torch.full((2,), 0.3, dtype=torch.float64)
    for source, target in ((tl.Denoiser(logits), tl.LeaveOneOut), (tl.LeaveOneOut(logits), tl.Denoiser)):
        assert_close(probabilities(tl.convert(source, target, tokens, alpha, process)), torch.softmax(logits, -1))


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
