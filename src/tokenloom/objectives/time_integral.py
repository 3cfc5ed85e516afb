r"""The integral of a bound over time by random times.

    int_0^1 E[loss of x_t] dt,      one number X_i per sequence, from `samples` times each.

Near t = 0 a token is lost with probability about t and then costs 1/t, so with t uniform X_i would have no variance.
Times are drawn where a share u^p of the signal is lost, u uniform,

    1 - alpha_t = (1 - alpha_1) u^p,      dt = p u^(p-1) (1 - alpha_1) du / |alpha'_t|,

which makes X_i the same for every schedule.  Its k-th moment is the integral of p^k u^(p-k) for k > 1: p = 2 has the
least variance, but a third moment without bound, and rare times near 0 that a small sample misses, with an error bar
too short.  p = 5/2 bounds it, for 4% more variance.  Sequences are cut into groups of g, and the n = g * samples
numbers u of a group are dealt to its rows at random:

    antithetic   u_k = (k + v)/n, one v per group         stratified   u_k = (k + v_k)/n, one v_k for each

Every X_i is unbiased, rows of a group depend on one another, groups do not: `grouped_ratio` is the error that follows.
"""

import math
from typing import Literal

import torch
from torch import Generator

from tokenloom.drawing.randomness import uniform
from tokenloom.process import Process
from tokenloom.types import PerPosition, PerRow

Times = Literal["antithetic", "stratified"]
STRATA = 8
"""Times a group has at least, where there are sequences enough: most of what times contribute to the error is gone."""
POWER = 2.5
"""The p above."""
LEAST_GROUPS = 32
"""Groups never become fewer for the sake of larger ones: their spread must be known."""


def group_size(count: int, samples: int) -> int:
    """Return the number of rows of a group, for `count` sequences of `samples` times each."""
    return max(1, min(math.ceil(STRATA / samples), count // LEAST_GROUPS))


def group_levels(
    count: int, samples: int, group: int, times: Times, generator: Generator | None, device: torch.device
) -> PerPosition:
    """Draw the numbers u, [count, samples]: evenly spread over [0, 1) within every group, in random order."""
    groups, size = math.ceil(count / group), group * samples
    offsets = uniform((groups, size if times == "stratified" else 1), generator, device)
    order = uniform((groups, size), generator, device).argsort(-1)
    spread = ((torch.arange(size, device=device) + offsets) / size).gather(-1, order)
    return spread.view(groups * group, samples)[:count]


def levels_to_times(u: PerRow, process: Process) -> tuple[PerRow, PerRow]:
    """Return the times at which a share u^p of what is ever lost is lost, and the weights dt/du of their losses."""
    u = u.clamp(min=1e-9)  # at 0 itself the weight of some schedules is 0/0
    lost = 1 - process.alpha(torch.ones_like(u))
    t = process.masses.time_at_lost(lost * u**POWER).clamp(0, 1)
    return t, POWER * u ** (POWER - 1) * lost / -process.alpha_prime(t)
