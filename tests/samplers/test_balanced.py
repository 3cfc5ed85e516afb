"""The balanced corrector against its law by enumeration: rates from tables of p_t, paths from matrix exponentials.

Chi-square tests have a false-alarm rate of at most 1e-6.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import get_args, get_type_hints

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.samplers import helpers
from tests.samplers.helpers import CELLS, P0, ROWS, Cell, K, L, correct, generator, process_of, supported
from tests.samplers.laws import hybrid_joint, pi_of
from tests.statistics import assert_frequencies
from tokenloom.samplers import CORRECTORS, Balanced, Evaluator
from tokenloom.samplers.correctors import balanced

ALPHA = 0.6
G: dict[str, Callable[[float], float]] = {
    "max": lambda r: max(1, r),
    "sqrt": lambda r: r**0.5,
    "barker": lambda r: r / (1 + r),
    "min": lambda r: min(1, r),
}
every_g = pytest.mark.parametrize("g", get_args(get_type_hints(Balanced)["g"]))
KINDS = supported(Balanced, CELLS)
LEVELS = (1e-6, ALPHA, 1 - 1e-6)


@cache
def noised(kind: Cell, alpha: float = ALPHA) -> Tensor:
    """p_t at time 1 - alpha, over all sequences of states."""
    return hybrid_joint(P0, 1 - alpha).sum(0) if kind is tl.Hybrid else brute.marginal(P0, pi_of(kind), alpha)


def jump_rates(p_t: Tensor, states: int, length: int, g: str) -> Tensor:
    """From x to y by the definition: [sequences, sequences], 0 on the diagonal."""
    every, pairs = brute.sequences(states, length).tolist(), length * (states - 1)
    one_apart = [[sum(a != b for a, b in zip(x, y, strict=True)) == 1 for y in every] for x in every]
    law = p_t.tolist()
    rows = [
        [G[g](law[j] / law[i]) / pairs if one_apart[i][j] else 0.0 for j in range(len(law))] for i in range(len(law))
    ]
    return torch.tensor(rows, dtype=torch.float64)


def by_jumps(rates: Tensor, time: float, most: int) -> list[Tensor]:
    """P(X_T = y, N_T = n | x) for n = 0..most jumps, and last where the jump after these leads, if it comes before T: a
    chain on copies of the space, in which each jump leads to the next copy and the last one is never left."""
    size, copies = len(rates), most + 2
    whole = torch.zeros(copies, size, copies, size, dtype=torch.float64)
    for copy in range(copies - 1):
        whole[copy, :, copy] = -torch.diag(rates.sum(1))
        whole[copy, :, copy + 1] = rates
    law = torch.matrix_exp(time * whole.view(copies * size, -1)).view(whole.shape)[0]
    return list(law.unbind(1))


def kernel(rates: Tensor, time: float, most: int) -> Tensor:
    """Run for the time; where that takes more jumps, return to the start."""
    law = torch.stack(by_jumps(rates, time, most)[:-1]).sum(0)
    return law + torch.diag(1 - law.sum(1))


def leap(rates: Tensor, states: int, length: int, time: float) -> Tensor:
    """Every position alone, with the rates along it: one jump in the time, or none, or too many and back."""
    every, law = brute.sequences(states, length), torch.ones(len(rates), len(rates), dtype=torch.float64)
    weights = states ** torch.arange(length - 1, -1, -1)
    for position in range(length):
        others = [axis for axis in range(length) if axis != position]
        along = (every[:, None, others] == every[:, others]).all(-1)
        alone = kernel(torch.where(along, rates, 0), time, 1)
        to = torch.arange(len(rates))[:, None] + (every[:, position] - every[:, [position]]) * weights[position]
        law = law * alone.gather(1, to)
    return law


def off(p_t: Tensor, change: Tensor) -> float:
    return helpers.total_variation(p_t @ change, p_t)


# ----------------------------------------------------------------------------------------------------------- rates


def own_rates(model: tl.Oracle, noisy: tl.Noisy, g: str) -> Tensor:
    """The generator that the code has: its rates at every sequence, put where they lead; 0 on the diagonal."""
    corrector, states = CORRECTORS.parse(f"balanced:g={g}"), model.process.num_states
    assert isinstance(corrector, Balanced)
    local = Evaluator(model, None, len(noisy.tokens))(noisy).at(noisy.free, tl.LeaveOneOut)
    rates = corrector.rates(local.posterior.logits.squeeze(1), local.noisy, model.process)
    leaving = corrector.leaving(local, noisy, model.process).view(-1, 1)
    rates = rates * leaving / rates.sum(1, keepdim=True)  # with its unit of time
    length = noisy.tokens.shape[1]
    weights = states ** torch.arange(length - 1, -1, -1)
    to = (noisy.tokens * weights).sum(1)[local.where.row][:, None] + weights[local.where.column][:, None] * (
        torch.arange(states) - local.noisy.tokens
    )
    found = torch.zeros(len(noisy.tokens), states**length, dtype=torch.float64)
    return found.index_put((local.where.row[:, None].expand_as(to), to), rates, accumulate=True)


@every_g
@pytest.mark.parametrize("kind", KINDS)
def test_rates_are_those_of_the_table_and_leave_p_t_invariant(kind: Cell, g: str) -> None:
    for alpha in LEVELS:
        model, p_t = helpers.oracle(kind, tl.LeaveOneOut), noised(kind, alpha)
        states = model.process.num_states
        noisy = helpers.states(brute.sequences(states, L), alpha)
        noisy = replace(noisy, alpha_t=model.process.alpha(noisy.t))
        found = own_rates(model, noisy, g)
        possible = p_t > 0
        expected = jump_rates(p_t.clamp(min=1e-300), states, L, g)[possible][:, possible]
        torch.testing.assert_close(found[possible][:, possible], expected, rtol=1e-7, atol=1e-12)
        flow = p_t[:, None] * found
        assert float((flow - flow.T).abs().max()) < 1e-10
        assert float((flow.sum(0) - flow.sum(1)).abs().max()) < 1e-10


@every_g
def test_rates_of_a_point_mass_two_tokens_or_one_position_are_those_of_the_table(g: str) -> None:
    """A p_0 with zeros has logits of -inf; of one position all other sequences are one jump away."""
    zeros = torch.tensor([[0.0, 1.0], [0.0, 0.0]]).double()
    for p0 in (zeros, brute.random_p0(2, 3), brute.random_p0(5, 1)):
        states, length = p0.shape[0], p0.ndim
        model = tl.Oracle(p0, tl.Uniform(states, schedule=EXACT))
        for alpha in LEVELS:
            p_t = brute.marginal(p0, brute.uniform_pi(states, length), alpha)
            found = own_rates(model, helpers.states(brute.sequences(states, length), alpha), g)
            torch.testing.assert_close(found, jump_rates(p_t, states, length, g), rtol=1e-7, atol=1e-12)
            flow = p_t[:, None] * found
            assert float((flow - flow.T).abs().max()) < 1e-10


@every_g
@pytest.mark.parametrize("kind", [tl.Uniform, tl.Interpolating, tl.Hybrid])
def test_no_prediction_leads_to_a_rate_above_the_bound(kind: Cell, g: str) -> None:
    """Flat, peaked at any token, and with a single possible token."""
    process, corrector = process_of(kind, 6, 1), Balanced(g=g)  # type: ignore[arg-type]
    tokens = torch.arange(process.num_states).repeat(60)[:, None]
    logits = (
        torch.randn(len(tokens), 1, 6, generator=generator()).double()
        * torch.logspace(-2, 2, len(tokens))[:, None, None]
    )
    logits[-60:] = torch.where(torch.arange(6) == torch.arange(60)[:, None, None] % 6, 0, -torch.inf)
    for alpha in LEVELS:
        noisy = helpers.states(tokens, alpha)
        noisy = replace(noisy, alpha_t=process.alpha(noisy.t))
        model = tl.DiffusionModel(lambda x, t: logits, process, predicts=tl.LeaveOneOut)
        local = Evaluator(model, None, len(tokens))(noisy).at(noisy.free, tl.LeaveOneOut)
        ratio = corrector.leaving(local, noisy, process) / corrector.bound(noisy, process)
        assert 0.3 < float(ratio.max()) <= 1 + 1e-12


@pytest.mark.usefixtures("as_a_user")
@every_g
def test_the_bound_and_the_size_of_a_chunk_change_nothing(g: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tl.Oracle(brute.random_p0(4, 3), tl.Uniform(4, schedule=EXACT))
    for setting in (f"balanced:g={g},steps=2,time=3", f"balanced:g={g},parallel=true,time=2"):
        with monkeypatch.context() as patch:
            noisy = helpers.states(brute.sequences(4, 3), 0.8)
            found = correct(CORRECTORS.parse(setting), model, noisy).tokens
            patch.setattr(Balanced, "bound", lambda self, noisy, process: torch.full_like(noisy.t, torch.inf)[:, None])
            patch.setattr(balanced, "CACHED", 50)
            assert torch.equal(correct(CORRECTORS.parse(setting), model, noisy).tokens, found)
            assert not torch.equal(found, noisy.tokens)


def test_rates_in_single_precision_keep_their_relative_accuracy_and_their_size() -> None:
    """50,000 tokens at a level of 1 - 1e-7: a token that is noise leaves at a rate of 1e7; nothing is float64."""
    size, level = 50_000, 1 - 1e-7
    process, source = tl.Uniform(size, schedule=EXACT), generator()
    logits = 8 * torch.randn(4, size, generator=source)
    noisy = helpers.states(torch.tensor([[0], [1], [2], [3]]), level)
    for g in G:
        single, double = (Balanced(g=g).rates(each, noisy, process) for each in (logits, logits.double()))  # type: ignore[arg-type]
        assert single.dtype == torch.float32
        torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=0)
        torch.testing.assert_close(single.sum(1).double(), double.sum(1), rtol=1e-5, atol=0)


# ------------------------------------------------------------------------------------------------ the exact process


@every_g
def test_a_fixed_time_leaves_p_t_invariant_whatever_the_evaluations_and_nothing_else_does(g: str) -> None:
    """The rows that need too many jumps must return: left where they are, or after a number of jumps, they are off."""
    p_t = noised(tl.Uniform)
    rates = jump_rates(p_t, K, L, g)
    total = rates.sum(1)
    for time in (0.3, 1, 3):
        for most in range(3):
            assert off(p_t, kernel(rates, time, most)) < 1e-12
        assert off(p_t, torch.matrix_exp(time * (rates - torch.diag(total)))) < 1e-12
    kept = torch.stack(by_jumps(rates, 3.0, 1))  # its last copy is the state after the second jump, which ends the run
    assert off(p_t, kept.sum(0)) > 0.003
    one_jump = rates / total[:, None]
    assert off(p_t, one_jump) > 0.03
    assert off(p_t * total / (p_t @ total), one_jump) < 1e-12


@every_g
def test_sampled_jumps_follow_the_process_and_return_where_they_are_too_many(g: str) -> None:
    start = helpers.states(brute.sequences(K, L), ALPHA)
    for steps, time in ((1, 1.0), (3, 2.0)):
        law = kernel(jump_rates(noised(tl.Uniform), K, L, g), time, steps)
        setting = f"balanced:g={g},steps={steps},time={time}"
        helpers.check_correction(setting, helpers.oracle(tl.Uniform), start, law)


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_jumps_follow_the_process_under_every_noise_and_coupling(kind: Cell) -> None:
    states = process_of(kind).num_states
    start = helpers.states(brute.sequences(states, L), ALPHA)
    start = replace(start, alpha_t=process_of(kind).alpha(start.t))
    law = kernel(jump_rates(noised(kind), states, L, "sqrt"), 1.0, 2)
    helpers.check_correction("balanced:g=sqrt,steps=2", helpers.oracle(kind), start, law)


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.999])
def test_sampled_jumps_follow_the_process_where_nearly_all_or_nothing_is_noise(alpha: float) -> None:
    """At 0.999 a token that is noise leaves hundreds of times sooner, and one that is not nearly never."""
    law = kernel(jump_rates(noised(tl.Uniform, alpha), K, L, "sqrt"), 2.0, 2)
    start = helpers.states(brute.sequences(K, L), alpha)
    helpers.check_correction("balanced:g=sqrt,steps=2,time=2", helpers.oracle(tl.Uniform), start, law)


@pytest.mark.parametrize("parallel", [False, True])
def test_jumps_see_given_positions_and_leave_them(parallel: bool) -> None:
    """The first token is given, so the second is a process of its own, whose p_t is its conditional."""
    tokens = torch.tensor([[1, 0]]).expand(ROWS // 2, 2).contiguous()
    noisy = replace(helpers.states(tokens, ALPHA), given=torch.tensor([True, False]).expand_as(tokens))
    setting = f"balanced:steps=2,time=2,parallel={str(parallel).lower()}"
    corrected = correct(CORRECTORS.parse(setting), helpers.oracle(tl.Uniform), noisy).tokens
    assert bool((corrected[:, 0] == 1).all())
    rates = jump_rates(ALPHA * P0[1] / P0[1].sum() + (1 - ALPHA) / K, K, 1, "max")
    law = torch.matrix_power(leap(rates, K, 1, 1.0), 2) if parallel else kernel(rates, 2.0, 2)
    assert_frequencies(torch.bincount(corrected[:, 1], minlength=K), law[0])
    every = replace(noisy, given=torch.ones_like(tokens, dtype=torch.bool))
    assert torch.equal(correct(CORRECTORS.parse(setting), helpers.oracle(tl.Uniform), every).tokens, tokens)


def test_jumps_go_by_the_ratios_of_the_truncated_conditional() -> None:
    """All of nu on its most probable token: no joint law has these conditionals, and p_t is no longer kept."""
    start = helpers.states(brute.sequences(K, L), ALPHA)
    nu = brute.leave_one_out(P0, helpers.UNIFORM_PI, ALPHA)
    law = ALPHA * torch.nn.functional.one_hot(nu.argmax(-1), K) + (1 - ALPHA) / K
    ratio = law / law.gather(-1, start.tokens.unsqueeze(-1))
    rates = torch.zeros(len(nu), len(nu), dtype=torch.float64)
    for x, tokens in enumerate(start.tokens.tolist()):
        for y in range(K):
            first, second = x + (y - tokens[0]) * K, x + y - tokens[1]
            rates[x, first], rates[x, second] = ratio[x, 0, y].sqrt() / 4, ratio[x, 1, y].sqrt() / 4
    rates.fill_diagonal_(0)
    expected = kernel(rates, 1.0, 1)
    corrected = correct(
        CORRECTORS.parse("balanced:g=sqrt"),
        helpers.oracle(tl.Uniform),
        helpers.repeat(start, ROWS // len(nu)),
        truncation=tl.Truncation(top_k=1),
    )
    helpers.assert_transitions(helpers.transitions(start, corrected.tokens, K), expected)
    assert off(noised(tl.Uniform), expected) > 0.01


def test_a_row_whose_time_is_up_costs_no_more() -> None:
    """Of at most 9 evaluations a row takes one more than it has jumps, about 1.1 here."""
    model, noisy = helpers.oracle(tl.Uniform), helpers.states(torch.zeros(2_000, 2, dtype=torch.int64), ALPHA)
    evaluate, corrector = Evaluator(model, None, 2_000), Balanced(g="min", steps=8, time=0.2)
    assert corrector.evaluations == 9
    corrector.correct(evaluate, noisy, generator(), 0)
    assert int(evaluate.evaluations.min()) == 1
    assert 1 < float(evaluate.evaluations.double().mean()) < 1.3


# -------------------------------------------------------------------------------------------------- the parallel form


@every_g
def test_positions_in_parallel_jump_at_most_once_or_return_at_the_conditionals_of_the_start(g: str) -> None:
    start, rates = helpers.states(brute.sequences(K, L), ALPHA), jump_rates(noised(tl.Uniform), K, L, g)
    law = torch.matrix_power(leap(rates, K, L, 1.5), 2)
    setting = f"balanced:g={g},parallel=true,steps=2,time=3"
    helpers.check_correction(setting, helpers.oracle(tl.Uniform), start, law)


@every_g
def test_the_parallel_form_changes_p_t_by_the_square_of_its_time(g: str) -> None:
    """So many short ones change it by a multiple of the time of one: first order."""
    p_t = noised(tl.Uniform)
    rates = jump_rates(p_t, K, L, g)
    long, short = (off(p_t, leap(rates, K, L, time)) for time in (2e-3, 1e-3))
    assert short > 0
    assert long / short == pytest.approx(4, rel=0.02)
    few, many = (off(p_t, torch.matrix_power(leap(rates, K, L, 1 / steps), steps)) for steps in (100, 200))
    assert few / many == pytest.approx(2, rel=0.05)


@every_g
def test_independent_positions_in_parallel_leave_p_t_invariant(g: str) -> None:
    p_0 = helpers.product(brute.random_pi(K, L))
    p_t = brute.marginal(p_0.view(K, K), helpers.UNIFORM_PI, ALPHA)
    assert off(p_t, leap(jump_rates(p_t, K, L, g), K, L, 2.0)) < 1e-12


# -------------------------------------------------------------------------------------------------------- how it mixes


@pytest.mark.parametrize(("states", "length"), [(3, 4), (4, 3)])
def test_balanced_jumps_come_closer_to_p_t_than_as_many_redraws(states: int, length: int) -> None:
    """From the product of the marginals at a level of 0.9, as many expected jumps as redraws of a random scan."""
    p_t = brute.marginal(brute.random_p0(states, length), brute.uniform_pi(states, length), 0.9)
    folded = p_t.view([states] * length)
    start = torch.ones(1, dtype=torch.float64)
    for position in range(length):
        start = torch.kron(start, folded.sum([axis for axis in range(length) if axis != position]))
    redraw = torch.zeros(len(p_t), len(p_t), dtype=torch.float64)
    for position in range(length):
        line = folded.sum(position, keepdim=True).expand_as(folded).flatten()
        same = [brute.sequences(states, length)[:, axis] for axis in range(length) if axis != position]
        together = torch.stack([one[:, None] == one for one in same]).all(0)
        redraw += torch.where(together, p_t / line, 0) / length
    assert off(p_t, redraw) < 1e-12
    for g in ("max", "sqrt"):
        rates = jump_rates(p_t, states, length, g)
        change = (rates - torch.diag(rates.sum(1))) / (p_t @ rates.sum(1))
        for number in (1, 2, 4, 8):
            jumped, redrawn = start @ torch.matrix_exp(number * change), start @ torch.matrix_power(redraw, number)
            assert helpers.total_variation(jumped, p_t) < helpers.total_variation(redrawn, p_t)
