"""Confidence order under uniform noise draws exactly the rule it states, from every state, against enumeration.

The false-alarm rate of a chi-square test is at most 1e-6; without `draw` a step is deterministic but for ties.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.samplers.helpers import (
    P0,
    SEQUENCES,
    Cell,
    K,
    L,
    check_step,
    generator,
    oracle,
    product,
    repeat,
    states,
    step,
)
from tests.samplers.laws import denoiser, noise, pi_of
from tests.samplers.test_rules import always
from tests.statistics import assert_frequencies
from tokenloom.samplers import PREDICTORS, Adaptive

ALPHA_S = 0.6
"""Of two positions one is denoised here, and none at 0.45."""
SURE = torch.tensor([[0.7, 0.2, 0.1], [0.15, 0.6, 0.25], [0.5, 0.4, 0.1], [0.0, 0.9, 0.1]]).double()


def chosen(lead: list[float], weight: list[float], number: int, threshold: float | None) -> list[int]:
    """The positions that are replaced, by the words of the rule."""
    led = sorted((at for at in range(len(lead)) if lead[at] > 0), key=lambda at: -lead[at] * weight[at])
    if threshold is None:
        return led[:number]
    return [at for at in led if lead[at] >= threshold] or led[:1]


def rule(
    p: Tensor, tokens: Tensor, weight: Tensor, number: int, threshold: float | None = None, draw: bool = False
) -> Tensor:
    """The law of a step from every row of tokens, [rows, K^L]: p and w are over tokens, [rows, L, K]."""
    stay, best = (torch.nn.functional.one_hot(each, K).double() for each in (tokens, p.argmax(-1)))
    own, w = (each.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) for each in (p, weight))
    law = stay.clone()
    for row, lead in enumerate(p.amax(-1) - own):
        for at in chosen(lead.tolist(), w[row].tolist(), number, threshold):
            law[row, at] = p[row, at] if draw else best[row, at]
    return product(law)


CASES = [
    # options, the representation, alpha_t, the number, the threshold
    ("", "loo", 0.45, 1, None),
    ("", "denoiser", 0.45, 1, None),
    ("parallel=1,", "loo", 0.0, 1, None),
    ("parallel=9,", "denoiser", 0.45, 2, None),
    ("threshold=0.3,", "loo", 0.45, 0, 0.3),
    ("threshold=0,", "loo", 0.0, 0, 0.0),
    ("threshold=1,", "denoiser", 0.45, 0, 1.0),
]


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Interpolating])
@pytest.mark.parametrize("draw", [False, True])
@pytest.mark.parametrize(("options", "on", "alpha", "number", "threshold"), CASES)
def test_a_step_replaces_the_positions_that_are_led_most(
    kind: Cell, draw: bool, options: str, on: str, alpha: float, number: int, threshold: float | None
) -> None:
    """By lead times the probability that the token is noise, which matters for a table of noise alone; at the end
    all that are led."""
    p = brute.leave_one_out(P0, pi_of(kind), alpha) if on == "loo" else denoiser(kind, alpha)
    sampler, start = f"adaptive:{options}on={on},draw={str(draw).lower()}", states(SEQUENCES, alpha)
    for alpha_s, count, limit in ((ALPHA_S, number, threshold), (1.0, L, None)):
        law = rule(p, SEQUENCES, noise(kind), count, limit, draw)
        check_step(sampler, oracle(kind), start, alpha_s, law, rows=1)


def test_the_noise_decides_where_the_leads_are_close() -> None:
    """The test above can fail: under a table of noise another position is replaced than the leads alone say."""
    p = brute.leave_one_out(P0, pi_of(tl.Interpolating), 0.45)
    weighted, plain = (rule(p, SEQUENCES, w, 1) for w in (noise(tl.Interpolating), torch.ones_like(p)))
    assert not torch.equal(weighted, plain)


def after(options: str, tokens: list[int], alpha_s: float = 0.5, given: Tensor | None = None) -> list[int]:
    start = replace(states(torch.tensor([tokens]), 0.1), given=given)
    sampler = PREDICTORS.parse(f"adaptive:on=denoiser,{options}")
    return step(sampler, always(SURE, tl.Uniform(K)), start, alpha_s).tokens[0].tolist()


@pytest.mark.parametrize(
    ("options", "alpha_s", "expected"),
    [
        ("", 0.2, [1, 0, 2, 0]),
        ("", 0.5, [0, 0, 2, 1]),
        ("parallel=3", 0.2, [0, 1, 2, 1]),
        ("threshold=0.45", 0.2, [0, 1, 2, 1]),
        ("threshold=0.95", 0.2, [1, 0, 2, 1]),
        ("parallel=1", 1.0, [0, 1, 0, 1]),
    ],
)
def test_leads_of_several_positions_and_the_number_of_the_schedule(
    options: str, alpha_s: float, expected: list[int]
) -> None:
    """Leads of 0.5, 0.45, 0.4 and 0.9; the schedule denoises none of four from 0.1 to 0.2, and two to 0.5."""
    assert after(options, [1, 0, 2, 0], alpha_s) == expected


def test_the_schedule_counts_from_the_level_of_the_state() -> None:
    """floor(4 x 0.8) - floor(4 x 0.5): the next one."""
    start = states(torch.tensor([[1, 0, 2, 0]]), 0.5)
    found = step(PREDICTORS.parse("adaptive:on=denoiser"), always(SURE, tl.Uniform(K)), start, 0.8)
    assert found.tokens.tolist() == [[1, 0, 2, 1]]


@pytest.mark.parametrize("options", ["", "parallel=4,draw=true", "threshold=0,draw=true"])
@pytest.mark.parametrize("alpha_s", [0.5, 1.0])
def test_where_every_token_is_the_best_nothing_is_replaced(options: str, alpha_s: float) -> None:
    assert after(options, [0, 1, 0, 1], alpha_s) == [0, 1, 0, 1]


def test_given_positions_stay_and_are_not_counted() -> None:
    """Of the two that are free the schedule denoises one."""
    given = torch.tensor([[True, False, False, True]])
    assert after("", [1, 0, 2, 0], 0.5, given) == [1, 1, 2, 0]
    assert after("", [1, 0, 2, 0], 1.0, given) == [1, 1, 0, 0]


def test_masks_of_the_hybrid_are_replaced_before_tokens_that_are_rarely_noise() -> None:
    """Its noise is a mask more often than all tokens together, and a mask leads by the whole of the best token."""
    process = tl.Hybrid(K, schedule=EXACT)
    tokens = torch.tensor([[1, K, 2, K]])
    t = torch.full((1,), 0.7, dtype=torch.float64)
    start = tl.Noisy(tokens, t, process.alpha(t))
    model = always(SURE, process)
    found = step(PREDICTORS.parse("adaptive:on=denoiser,parallel=2"), model, start, 0.5).tokens
    assert found.tolist() == [[1, 1, 2, 1]]
    ended = step(PREDICTORS.parse("adaptive:on=denoiser"), model, start, 1.0).tokens
    assert ended.tolist() == [[0, 1, 0, 1]]


def test_positions_that_are_led_equally_are_equally_likely() -> None:
    start = repeat(states(torch.zeros(1, 4, dtype=torch.int64), 0.1), 8_000)
    model = always(SURE[1].expand(4, -1), tl.Uniform(K))
    tokens = step(PREDICTORS.parse("adaptive:on=denoiser,parallel=1"), model, start, 0.5).tokens
    assert bool((tokens.sum(1) == 1).all())
    assert_frequencies(tokens.sum(0), torch.full((4,), 0.25))


def test_two_tokens_and_one_sequence_end_at_their_mode() -> None:
    """A point mass leads everywhere, so a run of any number of steps ends there."""
    p0 = torch.zeros(2, 2, 2, dtype=torch.float64)
    p0[1, 0, 1] = 1
    for steps in (1, 2, 7):
        model = tl.Oracle(p0, tl.Uniform(2, schedule=EXACT))
        for sampler in ("adaptive", "adaptive:threshold=1", "adaptive:draw=true,parallel=1"):
            tokens = tl.sample(model, 20, steps=steps, sampler=sampler, generator=generator())
            assert bool((tokens == torch.tensor([1, 0, 1])).all())


def test_a_number_and_a_threshold_are_refused() -> None:
    with pytest.raises(ValueError, match=r"give parallel or threshold, not both, got 2 and 0\.5"):
        Adaptive(parallel=2, threshold=0.5)
