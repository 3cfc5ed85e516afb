"""Samplers that follow a rule rather than a law: who is chosen, how many, and what becomes of them, on cases by hand.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.samplers import helpers
from tests.samplers.helpers import CELLS, MASK, P0, SEQUENCES, Cell, K, advance, oracle, repeat, states, step
from tests.samplers.laws import MASKED_SEQUENCES, denoiser, noise, pi_of, start_of
from tests.statistics import assert_frequencies
from tokenloom.samplers import PREDICTORS
from tokenloom.samplers.predictors.greedy_tail import GreedyTail
from tokenloom.samplers.predictors.routing import Routing

SURE = torch.tensor([[0.6, 0.39, 0.01], [0.55, 0.45, 0.0], [0.58, 0.21, 0.21], [0.34, 0.33, 0.33]]).double()
"""Position 0 has the most probable token, position 1 the least entropy, position 2 the largest margin."""
HIDDEN = torch.full((1, 4), MASK)
BITS = torch.tensor([[True, True, False, False]])


def always(probabilities: Tensor, process: tl.Process) -> tl.DiffusionModel:
    """A denoiser that says the same of every state."""
    return tl.DiffusionModel(
        lambda tokens, time: probabilities.log().expand(len(tokens), -1, -1), process, EXACT, tl.Denoiser
    )


def unmasked(sampler: str, start: tl.Noisy, alpha_s: float, seed: int = 0) -> Tensor:
    model = always(SURE, tl.Masked(K))
    return step(PREDICTORS.parse(sampler), model, start, alpha_s, seed=seed).tokens != MASK


@pytest.mark.parametrize(("score", "surest"), [("probability", 0), ("entropy", 1), ("margin", 2)])
def test_confidence_unmasks_the_surest_position_first(score: str, surest: int) -> None:
    network_input = unmasked(f"confidence:score={score}", states(HIDDEN, 0.1), 0.3)
    assert network_input.tolist() == [[position == surest for position in range(4)]]


@pytest.mark.parametrize(("alpha_s", "count"), [(0.2, 0), (0.25, 1), (0.6, 2), (0.99, 3), (1.0, 4)])
def test_confidence_shows_the_floor_of_alpha_times_length(alpha_s: float, count: int) -> None:
    assert int(unmasked("confidence", states(HIDDEN, 0.1), alpha_s).sum()) == count


@pytest.mark.parametrize(("sampler", "kind"), [("confidence", tl.Masked), ("routing", tl.Uniform)])
def test_a_whole_number_of_positions_survives_its_rounding(sampler: str, kind: Cell) -> None:
    """Ten positions at t = 0.9: 10 (1 - 0.9) is below 1 in floating point, and means one."""
    assert 10 * (1 - 0.9) < 1
    blank = torch.zeros(1, 10, dtype=torch.int64)
    start = states(blank + MASK if kind is tl.Masked else blank, 0.05)
    memory = None if kind is tl.Masked else blank.bool()
    arrived, bits = advance(PREDICTORS.parse(sampler), always(SURE[:1].expand(10, -1), kind(K)), start, 0.1, memory)
    assert int((arrived.tokens != MASK if bits is None else bits).sum()) == 1


def test_confidence_counts_what_is_visible_and_never_rewrites_it() -> None:
    """Two of four are visible already: none is added at alpha_s = 0.6, the surest other one at 0.8."""
    start = states(torch.tensor([[MASK, 2, MASK, 1]]), 0.5)
    assert unmasked("confidence", start, 0.6).tolist() == [[False, True, False, True]]
    assert unmasked("confidence", start, 0.8).tolist() == [[True, True, False, True]]


def test_confidence_leaves_given_positions_out_of_the_count() -> None:
    given = torch.tensor([[True, True, False, False]])
    half = torch.tensor([0.5]).double()
    start = tl.Noisy(torch.tensor([[0, 0, MASK, MASK]]), half, half, given=given)
    assert unmasked("confidence", start, 0.6).tolist() == [[True, True, True, False]]


def test_confidence_with_temperature_draws_the_order_and_the_tokens() -> None:
    """One position of four, l with probability softmax(score / temperature)_l, then its token from the denoiser."""
    start = repeat(states(HIDDEN, 0.1), 40_000)
    model = always(SURE, tl.Masked(K))
    tokens = step(PREDICTORS.parse("confidence:temperature=0.2"), model, start, 0.25).tokens
    network_input = tokens != MASK
    assert bool((network_input.sum(1) == 1).all())
    position = network_input.int().argmax(1)
    law = torch.softmax(SURE.amax(-1) / 0.2, 0)[:, None] * SURE
    assert_frequencies(torch.bincount(position * K + tokens[network_input], minlength=4 * K), law)


def test_routing_keeps_draws_or_noises_by_the_bits() -> None:
    """Positions 0 and 2 are surest.  Denoised before: 0 and 1.  So 0 stays, 1 becomes noise, 2 is drawn, 3 decays."""
    alpha_s, alpha_t, rows = 0.5, 0.2, 40_000
    start = repeat(states(torch.tensor([[0, 1, 2, 1]]), alpha_t), rows)
    arrived, bits = advance(Routing(), always(SURE, tl.Uniform(K)), start, alpha_s, BITS.expand(rows, -1))
    assert bool((bits == torch.tensor([True, False, True, False])).all())
    assert bool((arrived.tokens[:, 0] == 0).all())
    kept = alpha_t / alpha_s
    decayed = (1 - kept) / K + kept * torch.tensor([0.0, 1.0, 0.0])
    for position, law in ((1, torch.full((K,), 1 / K)), (2, SURE[2]), (3, decayed)):
        assert_frequencies(torch.bincount(arrived.tokens[:, position], minlength=K), law)


def test_routing_ends_with_every_position_denoised() -> None:
    start = states(torch.tensor([[0, 1, 2, 1]]), 0.2)
    arrived, bits = advance(Routing(), always(SURE, tl.Uniform(K)), start, 1.0, BITS)
    assert bool(bits.all())
    assert arrived.tokens[0, :2].tolist() == [0, 1]


@pytest.mark.parametrize("kind", [tl.Uniform, tl.MaxCoupling, tl.Interpolating, helpers.table_maximal])
@pytest.mark.parametrize(("alpha_s", "alpha_t"), [(0.6, 0.25), (1.0, 0.6)])
def test_planned_step_replaces_its_number_of_positions_by_the_planner(
    kind: Cell, alpha_s: float, alpha_t: float
) -> None:
    """N = floor(c) or one more with mean c = gamma (a^1 + a^2); one position of two is l with probability a^l / sum."""
    nu = brute.leave_one_out(P0, pi_of(kind), alpha_t)
    own, lost = (each.gather(-1, SEQUENCES.unsqueeze(-1)).squeeze(-1) for each in (nu, noise(kind)))
    planner = (1 - alpha_t) * lost / (alpha_t * own + (1 - alpha_t) * lost)
    mean = (alpha_s - alpha_t) / (1 - alpha_t) * planner.sum(-1)
    number = torch.stack([(1 - (mean - n).abs()).clamp(min=0) for n in range(3)], -1)
    stay = torch.nn.functional.one_hot(SEQUENCES, K).double()
    share = planner / planner.sum(-1, keepdim=True)
    sets = [((False, False), number[:, 0]), ((True, True), number[:, 2])]
    sets += [((True, False), number[:, 1] * share[:, 0]), ((False, True), number[:, 1] * share[:, 1])]
    law = torch.zeros(len(SEQUENCES), K * K, dtype=torch.float64)
    for chosen, probability in sets:
        first, second = (nu[:, at] if chosen[at] else stay[:, at] for at in range(2))
        law += probability[:, None] * (first[:, :, None] * second[:, None, :]).flatten(1)
    helpers.check_step("planned", oracle(kind), states(SEQUENCES, alpha_t), alpha_s, law)


@pytest.mark.parametrize("kind", [kind for kind in CELLS if kind not in (tl.MaskedUniform, helpers.table_times)])
def test_greedy_tail_ends_in_the_mode_of_the_denoiser(kind: Cell) -> None:
    """A visible token is the mode of its own denoiser, and stays."""
    start = start_of(kind, 0.4)
    arrived = step(PREDICTORS.parse("greedy-tail"), oracle(kind), start, 1.0)
    assert torch.equal(arrived.tokens, denoiser(kind, 0.4).argmax(-1))


def test_greedy_tail_ends_given_transition_times_in_the_mode_of_the_masked_denoiser() -> None:
    lost = brute.sequences(2, 2).bool().repeat(len(SEQUENCES), 1)
    tokens = SEQUENCES.repeat_interleave(4, 0)
    start = states(tokens, 0.4, torch.where(lost, 0.3, 0.9).double())
    arrived = step(PREDICTORS.parse("greedy-tail"), oracle(tl.MaskedUniform), start, 1.0)
    view = (tokens.masked_fill(lost, MASK) * torch.tensor([K + 1, 1])).sum(-1)
    assert torch.equal(arrived.tokens, denoiser(tl.Masked, 0.4).argmax(-1)[view])


@pytest.mark.parametrize("inner", ["ancestral", "remasking"])
def test_greedy_tail_is_its_inner_predictor_before_the_end(inner: str) -> None:
    predictor = PREDICTORS.parse(inner)
    start = repeat(states(MASKED_SEQUENCES, 0.4), 50)
    wrapped = step(GreedyTail(predictor), oracle(tl.Masked), start, 0.7)
    assert torch.equal(wrapped.tokens, step(predictor, oracle(tl.Masked), start, 0.7).tokens)
