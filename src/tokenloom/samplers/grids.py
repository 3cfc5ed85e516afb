r"""The times of a run: where its evaluations are spent, from t_0 = 1 down to t_n = 0, with u = 1, ..., 1/n, 0.

    uniform    t = u
    cosine     t = 1 - cos(pi/2 u)
    power:p    1 - alpha_t = (1 - alpha_1) u^p with the alpha of the schedule; t = u^p if it is linear
    auto       power:1.5 if no token reveals x_0, else uniform

A step draws its positions independently, so it should be short where they have most to say to each other.  Where every
token stays in doubt that is late: much noise tells little, and the last of it is removed by what the other positions
say.  Where tokens are revealed, each once and for ever, all times are alike.  `benchmarks/bench_grids.py` measures it.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.process import Process
from tokenloom.support.words import nearest

NAMES = ("auto", "uniform", "cosine", "power")
IN_DOUBT = 1.5
"""The power of `auto`: 2 is better still for neighbours, and loses what is four positions apart."""


def power_of(grid: str) -> float | Literal["auto", "uniform", "cosine"]:
    """Read a grid: its power, or the name of one that has none."""
    name, _, power = grid.partition(":")
    if name not in NAMES:
        raise ValueError(f"there is no grid {grid!r}; {nearest(name, NAMES)}")
    if name != "power":
        if power:
            raise ValueError(f"the grid {name} takes no number, got {grid!r}; only power does, as in power:1.5")
        return name  # type: ignore[return-value]
    try:
        value = float(power)
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= 10:
        raise ValueError(f"the grid power needs a number in [0.1, 10], as in power:1.5, got {grid!r}")
    return value


def grid_times(grid: str, count: int, process: Process) -> Float[Tensor, "times"]:
    """Return the times of `count` steps."""
    kind, u = power_of(grid), torch.linspace(1, 0, count + 1, dtype=torch.float64)
    if kind == "auto":
        kind = "uniform" if process.reveals else IN_DOUBT
    if kind == "cosine":
        u[1:] = 1 - torch.cos(u[1:] * math.pi / 2)
    elif isinstance(kind, float):
        schedule = process.schedule
        u[1:-1] = schedule.inverse_lost(schedule.lost(u[:1]) * u[1:-1] ** kind)
    return u
