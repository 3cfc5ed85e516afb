r"""The integral of a bound over time, by random times and by states that are drawn with some token lost.

    int E[loss of x_t] dt over 1 - alpha_t from eps to 1 - alpha_1,      one number X_i per sequence.

Near t = 0 a token is lost with probability about t and then costs 1/t: losses that are rare and large, which a small
sample misses with an error bar too short.  So the loss is split by what is lost, F the free positions,

    E[loss] = alpha^F loss(x_0) + (1 - alpha^F) E[loss | some token is lost],

and no draw is left of which the loss grows without limit.  The first part, 0 if kept tokens are revealed, is taken at
one time of a density like alpha^F: alpha^(F + 1) is uniform.  The second is taken at `samples` times, where a share
u^p of the signal is lost, u uniform,

    1 - alpha_t = eps + r u^p,  r = 1 - alpha_1 - eps,      dt = p u^(p-1) r du / |alpha'_t|,

which makes X_i the same for every schedule.  p = 3/2 was best or close to it for chains of 6 to 128 tokens under every
noise (the sparse early times matter more with fewer tokens).  Sequences are cut into groups of g, and the
n = g * samples numbers u of a group are dealt to its rows at random:

    antithetic   u_k = (k + v)/n, one v per group         stratified   u_k = (k + v_k)/n, one v_k for each

Every X_i is unbiased, rows of a group depend on one another, groups do not: `grouped_ratio` is the error that follows.
"""

import math
from dataclasses import replace
from typing import Literal

import torch
from torch import Generator

from tokenloom.couplings.transition_times import TransitionTimes
from tokenloom.drawing.randomness import Randomness, uniform_pair
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

Times = Literal["antithetic", "stratified"]
STRATA = 8
"""Times a group has at least, where there are sequences enough: most of what times contribute to the error is gone."""
POWER = 1.5
"""The p above."""
LEAST_GROUPS = 32
"""Groups never become fewer for the sake of larger ones: their spread must be known."""


def group_size(count: int, samples: int) -> int:
    """Return the number of rows of a group, for `count` sequences of `samples` times each."""
    return max(1, min(math.ceil(STRATA / samples), count // LEAST_GROUPS))


def group_levels(count: int, samples: int, group: int, times: Times, generator: Generator) -> PerPosition:
    """Draw the numbers u, [count, samples]: evenly spread over [0, 1) within every group, in random order."""
    groups, size = math.ceil(count / group), group * samples
    offsets = torch.rand(groups, size if times == "stratified" else 1, generator=generator, dtype=torch.float64)
    order = torch.rand(groups, size, generator=generator, dtype=torch.float64).argsort(-1)
    return ((torch.arange(size) + offsets) / size).gather(-1, order).view(-1, samples)[:count]


def losing_times(u: PerRow, eps: float, process: Process) -> tuple[PerRow, PerRow]:
    """Return the times for states with lost tokens, and the weights dt/du of their losses."""
    u = u.clamp(min=1e-6)  # at 0 itself the weight of some schedules is 0/0
    most = 1 - process.alpha(torch.ones_like(u)) - eps
    t = process.masses.time_at_lost(eps + most * u**POWER).clamp(0, 1)
    return t, POWER * u ** (POWER - 1) * most / -process.alpha_prime(t)


def keeping_times(u: PerRow, eps: float, free: PerRow, process: Process) -> tuple[PerRow, PerRow]:
    """Return the times for states without, at which alpha^(F + 1) is uniform, and the weights dt/du of their losses."""
    least, most = process.alpha(torch.ones_like(u)) ** (free + 1), (1 - eps) ** (free + 1)
    power = least + (most - least) * u.clamp(1e-12, 1 - 1e-12)
    t = process.masses.time_at_lost(-torch.expm1(power.log() / (free + 1))).clamp(0, 1)
    density = (free + 1) * power ** (free / (free + 1)) / (most - least)
    return t, 1 / (density * -process.alpha_prime(t))


def corrupted_given(
    process: Process, x_0: Tokens, t: PerRow, some: bool, generator: Randomness | None, given: Flags | None
) -> tuple[Noisy, PerRow]:
    """Draw x_t given that `some` token is lost, else given that none is; return the probability of that too."""
    timed = isinstance(process.coupling, TransitionTimes)
    state = Noisy(x_0, t, process.alpha(t), None if timed else process.auxiliary(x_0, generator), given)
    branch, token = uniform_pair(x_0, generator)
    kept = state.alpha_t[:, None].expand(x_0.shape) if timed else process.path.remains(process, state)
    hazard = -(kept if given is None else kept.masked_fill(given, 1)).log()
    if some:
        lost, probability = some_lost(branch, hazard)
    else:
        lost, probability = torch.zeros_like(x_0, dtype=torch.bool), torch.exp(-hazard.sum(-1))
    if isinstance(process.coupling, TransitionTimes):
        state = replace(state, aux=process.coupling.times_of(process, state, lost, generator))
    return replace(state, tokens=torch.where(lost, process.law(state).draw(token), x_0)), probability


def some_lost(numbers: PerPosition, hazard: PerPosition) -> tuple[Flags, PerRow]:
    """Flag the tokens whose clocks ring before 1, at least one per row, and return the probability of one at all.

    Token l is lost with probability 1 - kept_l, which is to say that a clock of rate h_l = -log kept_l rings before 1.
    The first clock of a row has the rate H = sum_l h_l, so

        P(none is lost) = exp(-H),      P(some are) = 1 - exp(-H).

    Given that some are, the first clock rings at -log(1 - c P(some)) / H with c uniform, and the others run on from
    there: all clocks are shifted alike.
    """
    clocks = torch.where(hazard > 0, -torch.log1p(-numbers) / hazard, torch.inf)
    first, total = clocks.amin(-1, keepdim=True), hazard.sum(-1, keepdim=True)
    some = -torch.expm1(-total)
    early = -torch.log1p(torch.expm1(-total * first) * some) / total
    early = torch.where(total.isfinite(), early, first)  # some token is lost in any case
    lost = (clocks - first + early < 1) | (clocks == first)  # rounding may put the first one at 1
    return lost & (hazard > 0), some.squeeze(-1)
