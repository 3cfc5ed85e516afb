"""Entropy-bound acceptance draws exactly the rule it states, from every state, against enumeration.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.laws.helpers import EXACT
from tests.samplers.helpers import MASK, Cell, K, L, check_step, generator, oracle, product, repeat, states, step
from tests.samplers.laws import denoiser, noise, possible, start_of
from tests.samplers.test_rules import always
from tests.statistics import assert_frequencies
from tokenloom.samplers import PREDICTORS, EntropyBound
from tokenloom.samplers.predictors.entropy_bound import within

SURE = torch.tensor([[0.98, 0.01, 0.01], [0.4, 0.3, 0.3], [0.9, 0.1, 0.0], [1.0, 0.0, 0.0]]).double()
"""Entropies of 0.11, 1.09, 0.33 and 0 nats."""
FLAT = "hot=1,cold=1"


def accepted(entropies: list[float], bound: float) -> set[int]:
    """The rule by its words: go on while all accepted so far sum to at most the bound."""
    found: list[int] = []
    for at in sorted(range(len(entropies)), key=lambda position: entropies[position]):
        if sum(entropies[other] for other in found) <= bound:
            found.append(at)
    return set(found)


@pytest.mark.parametrize("bound", [0.0, 0.1, 2.0, 1e9])
def test_the_smallest_entropies_are_accepted_while_the_smaller_ones_stay_within_the_bound(bound: float) -> None:
    order, shift = (torch.rand(300, 9, generator=generator(seed), dtype=torch.float64) for seed in range(2))
    entropies = 0.05 * order.argsort(1) + 0.001 + 0.04 * shift  # further apart than rounding
    flags = within(entropies, bound, order)
    for row, found in zip(entropies.tolist(), flags, strict=True):
        assert set(found.nonzero().flatten().tolist()) == accepted(row, bound)
    assert bool((flags.sum(1) >= 1).all())


def test_a_sum_that_equals_the_bound_survives_its_rounding() -> None:
    """Three times 0.05 in a float32 network: the third is accepted at a bound of 0.1, whichever way they round."""
    entropies = 0.05 + torch.tensor([[1e-8, 2e-8, 3e-8, 1.0], [-1e-8, -2e-8, -3e-8, 1.0]]).double()
    assert within(entropies, 0.1, torch.zeros(2, 4).double()).tolist() == [[True, True, True, False]] * 2


def rule(kind: Cell, alpha: float, bound: float, temperature: float, last: bool = False) -> Tensor:
    """The law of a step from every start, [starts, outcomes]; a visible token beside masks stays."""
    start, mu = start_of(kind, alpha), denoiser(kind, alpha)
    p = mu ** (1 / temperature)
    p = p / p.sum(-1, keepdim=True)
    law, lost = torch.nn.functional.one_hot(start.tokens, mu.shape[-1]).double(), noise(kind)
    for row, tokens in enumerate(start.tokens.tolist()):
        open_ = [at for at in range(L) if kind is not tl.Masked or tokens[at] == MASK]
        entropies = torch.special.entr(p[row]).sum(-1).tolist()
        taken = accepted([entropies[at] for at in open_], bound)
        for index, at in enumerate(open_):
            law[row, at] = p[row, at] if index in taken else lost[row, at]
            if last:
                law[row, at] = torch.nn.functional.one_hot(p[row, at].argmax(), mu.shape[-1])
    return product(law)


CASES = [
    # options, the bound and, at t = 1 - alpha_t, the temperature; alpha_t
    ("", 0.1, 0.4 + 0.4 * 0.55, 0.45),
    ("", 0.1, 0.8, 0.0),
    (f"bound=0,{FLAT}", 0.0, 1.0, 0.45),
    (f"bound=0.6,{FLAT}", 0.6, 1.0, 0.45),
    (f"bound=99,{FLAT}", 99.0, 1.0, 0.0),
    ("bound=0.9,hot=3,cold=1", 0.9, 1 + 2 * 0.55, 0.45),
]


@pytest.mark.parametrize("kind", [tl.Uniform, tl.Interpolating, tl.Masked])
@pytest.mark.parametrize(("options", "bound", "temperature", "alpha"), CASES)
def test_a_step_draws_what_it_accepts_noises_the_rest_and_ends_in_the_mode(
    kind: Cell, options: str, bound: float, temperature: float, alpha: float
) -> None:
    start = start_of(kind, alpha)
    keep = possible(kind, start, alpha)
    for alpha_s, last in ((0.7, False), (1.0, True)):
        law = rule(kind, alpha, bound, temperature, last)[keep]
        check_step(f"entropy-bound:{options}", oracle(kind), start.sequences(keep), alpha_s, law, rows=1)


def test_the_bound_and_the_temperature_matter() -> None:
    """The test above can fail: these laws differ."""
    laws = [rule(tl.Uniform, 0.45, *setting) for setting in ((0.0, 1.0), (0.6, 1.0), (99.0, 1.0), (0.6, 0.5))]
    assert all(float((law - other).abs().max()) > 0.1 for law in laws for other in laws if law is not other)


def test_what_was_accepted_before_is_noise_again_where_it_is_not_accepted_now() -> None:
    """Of four positions the surest three; the third entropy is not counted.  Given ones neither change nor count."""
    start = repeat(states(torch.zeros(1, 4, dtype=torch.int64), 0.5), 9_000)
    sampler, model = PREDICTORS.parse(f"entropy-bound:{FLAT}"), always(SURE, tl.Uniform(K))
    one = step(PREDICTORS.parse(f"entropy-bound:bound=0.12,{FLAT}"), model, start, 0.7).tokens
    for position, law in enumerate((SURE[0], torch.full((K,), 1 / K), SURE[2], SURE[3])):
        assert_frequencies(torch.bincount(one[:, position], minlength=K), law)
    given = torch.tensor([[True, False, False, False]]).expand(9_000, -1)
    two = step(sampler, model, replace(start, given=given), 0.7).tokens
    assert bool((two[:, 0] == 0).all())
    assert_frequencies(torch.bincount(two[:, 2], minlength=K), SURE[2])  # the second smallest now


def test_a_row_with_nothing_in_doubt_costs_nothing_and_masks_of_the_last_step_are_all_filled() -> None:
    model, given = oracle(tl.Masked), (torch.tensor([1, 0]), torch.tensor([True, True]))
    samples = tl.Sampler(EntropyBound(), steps=3).run(model, 4, given=given, generator=generator())
    assert samples.tokens.tolist() == [[1, 0]] * 4
    assert samples.evaluations.tolist() == [0] * 4
    start = states(torch.full((1, 4), MASK), 0.1)
    assert step(EntropyBound(), always(SURE, tl.Masked(K)), start, 1.0).tokens.tolist() == [[0, 0, 0, 0]]


def test_noise_that_moves_is_that_of_the_time_of_arrival() -> None:
    """GIDD at t = 0.2: a mask or a token, in the shares of its definition, where nothing is accepted."""
    process = tl.Hybrid(K, 0.3, schedule=EXACT)
    t = torch.full((9_000,), 0.6, dtype=torch.float64)
    start = tl.Noisy(torch.zeros(9_000, 2, dtype=torch.int64), t, process.alpha(t))
    model = always(SURE[:2], process)
    found = step(PREDICTORS.parse(f"entropy-bound:bound=0,{FLAT}"), model, start, 0.8).tokens
    arrived = process.move_to(start, start.tokens, torch.full_like(t, 0.2)).sequences(slice(0, 1))
    law = process.law(arrived).log_probs(t.device).exp().flatten()
    assert_frequencies(torch.bincount(found[:, 1], minlength=K + 1), law)


def test_a_point_mass_of_two_tokens_is_found_in_one_step_or_in_many() -> None:
    p0 = torch.zeros(2, 2, 2, dtype=torch.float64)
    p0[1, 0, 1] = 1
    for kind in (tl.Uniform, tl.Masked):
        for steps in (1, 2, 5):
            model = tl.Oracle(p0, kind(2, schedule=EXACT))
            tokens = tl.sample(model, 20, steps=steps, sampler="entropy-bound:bound=0", generator=generator())
            assert bool((tokens == torch.tensor([1, 0, 1])).all())
