"""Samplers that follow a rule rather than a law: who is chosen, how many, and what becomes of them, on cases by hand.

What a predictor remembers between steps (routing bits, transition times) is its own.  The false-alarm rate of a
chi-square test is at most 1e-6.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.samplers import helpers
from tests.samplers.helpers import CELLS, MASK, P0, SEQUENCES, Cell, K, advance, generator, oracle, repeat, states, step
from tests.samplers.laws import MASKED_SEQUENCES, denoiser, masked_view, noise, pi_of, start_of
from tests.statistics import assert_frequencies
from tokenloom.drawing.randomness import Randomness
from tokenloom.samplers import DNDM, PREDICTORS, Corrector, Evaluator, GreedyTail, Predictor, Routing
from tokenloom.types import PerRow

SURE = torch.tensor([[0.6, 0.39, 0.01], [0.55, 0.45, 0.0], [0.58, 0.21, 0.21], [0.34, 0.33, 0.33]]).double()
"""Position 0 has the most probable token, position 1 the least entropy, position 2 the largest margin."""
HIDDEN = torch.full((1, 4), MASK)
BITS = torch.tensor([[True, True, False, False]])


def always(probabilities: Tensor, process: tl.Process) -> tl.DiffusionModel:
    """A denoiser that says the same of every state."""
    return tl.DiffusionModel(
        lambda tokens, time: probabilities.log().expand(len(tokens), -1, -1), process, EXACT, tl.Denoiser
    )


def unmasked(sampler: str, start: tl.Noisy, alpha_s: float) -> Tensor:
    return step(PREDICTORS.parse(sampler), always(SURE, tl.Masked(K)), start, alpha_s).tokens != MASK


@pytest.mark.parametrize(("score", "surest"), [("probability", 0), ("entropy", 1), ("margin", 2)])
def test_confidence_unmasks_the_surest_position_first(score: str, surest: int) -> None:
    shown = unmasked(f"confidence:score={score}", states(HIDDEN, 0.1), 0.3)
    assert shown.tolist() == [[position == surest for position in range(4)]]


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


def test_confidence_counts_what_is_visible_and_not_given_and_never_rewrites_it() -> None:
    """Two of four are visible already: none is added at alpha_s = 0.6, the surest other one at 0.8."""
    start = states(torch.tensor([[MASK, 2, MASK, 1]]), 0.5)
    assert unmasked("confidence", start, 0.6).tolist() == [[False, True, False, True]]
    assert unmasked("confidence", start, 0.8).tolist() == [[True, True, False, True]]
    given = replace(states(torch.tensor([[0, 0, MASK, MASK]]), 0.5), given=BITS)
    assert unmasked("confidence", given, 0.6).tolist() == [[True, True, True, False]]


def test_confidence_with_temperature_draws_the_order_and_the_tokens() -> None:
    """One position of four, l with probability softmax(score / temperature)_l, then its token from the denoiser."""
    start = repeat(states(HIDDEN, 0.1), 40_000)
    model = always(SURE, tl.Masked(K))
    tokens = step(PREDICTORS.parse("confidence:temperature=0.2"), model, start, 0.25).tokens
    shown = tokens != MASK
    assert bool((shown.sum(1) == 1).all())
    position = shown.int().argmax(1)
    law = torch.softmax(SURE.amax(-1) / 0.2, 0)[:, None] * SURE
    assert_frequencies(torch.bincount(position * K + tokens[shown], minlength=4 * K), law)


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


@pytest.mark.parametrize("kind", helpers.supported(PREDICTORS["planned"], CELLS))
@pytest.mark.parametrize(("alpha_s", "alpha_t"), [(0.6, 0.25), (1.0, 0.6)])
def test_planned_step_replaces_its_number_of_positions(kind: Cell, alpha_s: float, alpha_t: float) -> None:
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


@pytest.mark.parametrize("kind", CELLS)
def test_greedy_tail_ends_in_the_mode_of_the_denoiser(kind: Cell) -> None:
    """A visible token is the mode of its own denoiser, and stays; given transition times the masked one's counts."""
    if kind in (tl.MaskedUniform, helpers.table_times):
        tokens, lost = SEQUENCES.repeat_interleave(4, 0), brute.sequences(2, 2).bool().repeat(len(SEQUENCES), 1)
        start, mu = states(tokens, 0.4, torch.where(lost, 0.3, 0.9).double()), masked_view(tokens, lost, 0.4)
    else:
        start, mu = start_of(kind, 0.4), denoiser(kind, 0.4)
    arrived = step(PREDICTORS.parse("greedy-tail"), oracle(kind), start, 1.0)
    assert torch.equal(arrived.tokens, mu.argmax(-1))


@pytest.mark.parametrize("inner", ["ancestral", "remasking"])
def test_greedy_tail_is_its_inner_predictor_before_the_end(inner: str) -> None:
    predictor = PREDICTORS.parse(inner)
    start = repeat(states(MASKED_SEQUENCES, 0.4), 50)
    wrapped = step(GreedyTail(predictor), oracle(tl.Masked), start, 0.7)
    assert torch.equal(wrapped.tokens, step(predictor, oracle(tl.Masked), start, 0.7).tokens)


# ---------------------------------------------------------------------- memory between steps, beside a corrector or not

L = 4


@dataclass(frozen=True)
class Rewrite(Corrector):
    """Puts one token at one position, once: after the step with this number."""

    position: int
    token: int
    after: int = 0
    name = "rewrite"

    @property
    def evaluations(self) -> int:
        return 1

    def correct(self, evaluate: Evaluator, noisy: tl.Noisy, generator: Randomness | None, call: int) -> tl.Noisy:
        tokens = noisy.tokens.clone()
        if call == self.after:
            tokens[:, self.position] = self.token
        return evaluate.process.move_to(noisy, tokens, noisy.t)


@dataclass(frozen=True)
class Watched(Routing):
    """Routing that shows the bits it is handed."""

    seen: list[Tensor] = field(default_factory=list)

    def advance(
        self, evaluate: Evaluator, noisy: tl.Noisy, s: PerRow, generator: Randomness | None, memory: Any
    ) -> tuple[tl.Noisy, Any]:
        self.seen.append(memory)
        return super().advance(evaluate, noisy, s, generator, memory)


def falling(tokens: Tensor, time: Tensor) -> Tensor:
    """Surest of position 0, then 1, 2, 3; always of token 0."""
    return torch.stack([torch.tensor([4.0 - position, 0.0, 0.0]) for position in range(L)]).expand(len(tokens), -1, -1)


MODEL = tl.DiffusionModel(falling, tl.Uniform(K, schedule=EXACT), predicts=tl.Denoiser)
"""Four positions and four even steps: routing chooses one more each time, from left to right."""


def run(predictor: Predictor, corrector: Corrector | None, rows: int = 40) -> list[tl.Step]:
    sampler = tl.Sampler(predictor, corrector, steps=4 if corrector is None else 7)
    steps = list(sampler.steps(MODEL, rows, length=L, generator=generator()))
    assert all(state.aux is None for step in steps for state in (step.before, step.after))
    return steps


either = pytest.mark.parametrize("wrap", [lambda inner: inner, GreedyTail], ids=["alone", "in a greedy tail"])
"""A greedy tail hands the memory of its inner predictor on."""


@either
def test_routing_bits_go_from_step_to_step(wrap: Callable[[Predictor], Predictor]) -> None:
    watched = Watched()
    run(wrap(watched), None)
    expected = [[position < count for position in range(L)] for count in range(4)]
    assert [bits[0].tolist() for bits in watched.seen] == expected[: len(watched.seen)]
    assert len(watched.seen) == (4 if wrap is not GreedyTail else 3)
    assert all(bool((bits == bits[0]).all()) for bits in watched.seen)


@either
def test_routing_counts_a_token_that_a_corrector_changed_as_noise(wrap: Callable[[Predictor], Predictor]) -> None:
    """After the first step position 0 is rewritten to 1: b = 0 in the rows where that changed it, else still 1."""
    watched = Watched()
    first = run(wrap(watched), Rewrite(0, 1))[0]
    assert first.after.tokens[:, 0].tolist() == [1] * 40
    own = watched.seen[1][:, 0]
    assert 0 < int(own.sum()) < 40
    alone = run(Routing(), None)[0].after.tokens[:, 0]
    assert torch.equal(own, alone == 1)
    assert not bool(watched.seen[1][:, 1:].any())


def test_routing_draws_a_changed_token_again() -> None:
    """Position 0 stays chosen: without a corrector its token stays; rewritten, it is drawn from the denoiser."""
    steps = run(Routing(), Rewrite(0, 1), 20_000)
    changed = run(Routing(), None, 20_000)[0].after.tokens[:, 0] != 1
    drawn = steps[1].after.tokens[changed, 0]
    assert_frequencies(torch.bincount(drawn, minlength=K), torch.softmax(torch.tensor([4.0, 0.0, 0.0]).double(), 0))
    kept = steps[1].after.tokens[~changed, 0]
    assert bool((kept == 1).all())


def test_dndm_replaces_a_token_changed_before_its_time_and_keeps_one_changed_afterwards() -> None:
    """Rewritten to 2 at t = 1/2: where tau < 1/2 (half of the rows) mu replaces it, elsewhere it stays."""
    rows = 8_000
    steps = run(DNDM(), Rewrite(0, 2, after=1), rows)
    assert bool((steps[1].after.tokens[:, 0] == 2).all())
    mu = torch.softmax(torch.tensor([4.0, 0.0, 0.0]).double(), 0)
    law = 0.5 * mu + 0.5 * torch.tensor([0.0, 0.0, 1.0]).double()
    assert_frequencies(torch.bincount(steps[-1].after.tokens[:, 0], minlength=K), law)


def test_every_token_of_dndm_arrives_once() -> None:
    """Without a corrector, and with a denoiser that is sure of token 0: what was not 0 changes once, to 0."""
    sampler = tl.Sampler(DNDM(), top_k=1, on=tl.Denoiser, steps=6)
    steps = list(sampler.steps(MODEL, 200, length=L, generator=generator()))
    moves = torch.stack([step.changed for step in steps]).sum(0)
    assert torch.equal(moves, (steps[0].before.tokens != 0).long())
    assert bool((steps[-1].after.tokens == 0).all())
    assert len({int(step.changed.sum()) > 0 for step in steps}) == 1


def test_a_predictor_must_define_a_step_or_what_it_remembers() -> None:
    with pytest.raises(TypeError, match="Idle must define step, or begin and advance"):

        class Idle(Predictor):
            pass
