r"""The integral of a bound over time by random times.

    int E[loss of x_t] dt over 1 - alpha_t from eps to 1 - alpha_1,      one number X_i per sequence.

Near t = 0 a token is lost with probability about t and then costs 1/t: losses that are rare and large, which a small
sample misses with an error bar too short.  So the loss is split by what `lost_tokens.py` draws, F the free positions,

    E[loss] = alpha^F loss(x_0) + (1 - alpha^F) E[loss | some token is lost],

and no draw is left of which the loss grows without limit.  The first part, 0 if kept tokens are revealed, is taken at
one time: of a density like alpha^F, so that alpha^(F + 1) is uniform, or for a denoiser, whose loss is like 1/t and
whose integral begins at eps > 0, with log(1 - alpha_t) uniform.  The second is taken at `samples` times, where a share
u^p of the signal is lost, u uniform,

    1 - alpha_t = eps + r u^p,  r = 1 - alpha_1 - eps,      dt = p u^(p-1) r du / |alpha'_t|,

which makes X_i the same for every schedule.  p = 3/2 was best or close to it for chains of 6 to 128 tokens under every
noise (the sparse early times matter more with fewer tokens).  Sequences are cut into groups of g, and the
n = g * samples numbers u of a group are dealt to its rows at random:

    antithetic   u_k = (k + v)/n, one v per group         stratified   u_k = (k + v_k)/n, one v_k for each

Every X_i is unbiased, rows of a group depend on one another, groups do not: `grouped_ratio` is the error that follows.
"""

import math
from typing import Literal

import torch
from torch import Generator

from tokenloom.process import Process
from tokenloom.types import PerPosition, PerRow

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
    """Return the times for states without lost tokens, and the weights dt/du of their losses."""
    if eps:
        span = torch.log((1 - process.alpha(torch.ones_like(u))) / eps)
        lost = eps * torch.exp(span * u)
        t = process.masses.time_at_lost(lost).clamp(0, 1)
        return t, span * lost / -process.alpha_prime(t)
    least, most = process.alpha(torch.ones_like(u)) ** (free + 1), 1.0
    power = least + (most - least) * u.clamp(1e-12, 1 - 1e-12)
    t = process.masses.time_at_lost(-torch.expm1(power.log() / (free + 1))).clamp(0, 1)
    density = (free + 1) * power ** (free / (free + 1)) / (most - least)
    return t, 1 / (density * -process.alpha_prime(t))
