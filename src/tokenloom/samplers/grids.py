r"""The times of a run: where its evaluations are spent, from t_0 = 1 down to t_n = 0, with u = 1, ..., 1/n, 0.

    uniform       t = u
    cosine        t = 1 - cos(pi/2 u)
    power:p       1 - alpha_t = (1 - alpha_1) u^p with the alpha of the schedule; t = u^p if it is linear
    information   equal shares of what a state tells of its clean tokens, if these are uniform (`information.py`)
    fitted        what `tokenloom fit-grid` stored with the model, interpolated for other n (`evaluation/grid_fit.py`)
    auto          fitted if the model has it, else power:1.5 if no token reveals x_0, else uniform

A step draws its positions independently, so it should be short where they have most to say to each other.  Where every
token stays in doubt that is late: much noise tells little, and the last of it is removed by what the other positions
say.  Where tokens are revealed, each once and for ever, all times are alike.  `benchmarks/bench_grids.py` measures it.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.models.protocol import Model
from tokenloom.process import Process
from tokenloom.samplers.information import equal_shares
from tokenloom.support.words import nearest

NAMES = ("auto", "uniform", "cosine", "power", "information", "fitted")
IN_DOUBT = 1.5
"""The power of `auto`: 2 is better still for neighbours, and loses what is four positions apart."""
COUNT = re.compile("[1-9][0-9]{0,8}")
"""A number of steps, as a stored grid is named."""
COUNTS = (4, 8, 16)
"""The numbers of steps that grids are fitted for."""


def check_grid(grid: str) -> None:
    """Raise unless this is the name of a grid."""
    name, _, number = grid.partition(":")
    if name not in NAMES:
        raise ValueError(f"there is no grid {grid!r}; {nearest(name, NAMES)}")
    if name == "power":
        _power(grid)
    elif number:
        raise ValueError(f"the grid {name} takes no number, got {grid!r}; only power does, as in power:1.5")


def times_of_run(grid: str, count: int, model: Model) -> Float[Tensor, "times"]:
    """Return the times of `count` steps of a model."""
    process, stored = model.process, (model.about.grids or {}).get(model.process.name)
    if grid == "fitted" and stored is None:
        raise ValueError(
            f"no grid has been fitted to this model under {process.title}; tokenloom fit-grid MODEL does it, or leave "
            "grid at auto"
        )
    if stored is None or grid not in ("auto", "fitted"):
        return grid_times(grid, count, process)
    return times_of(interpolated(stored, count), process)


def grid_times(grid: str, count: int, process: Process) -> Float[Tensor, "times"]:
    """Return the times of `count` steps of a grid that is not fitted."""
    u = torch.linspace(1, 0, count + 1, dtype=torch.float64)
    grid = default_grid(process) if grid == "auto" else grid
    if grid == "uniform":
        return u
    if grid == "cosine":
        u[1:] = 1 - torch.cos(u[1:] * math.pi / 2)
        return u
    return times_of(equal_shares(count, process) if grid == "information" else u ** _power(grid), process)


def default_grid(process: Process) -> str:
    """Return the name of the grid that `auto` is without a fitted one."""
    return "uniform" if process.reveals else f"power:{IN_DOUBT}"


def times_of(levels: Float[Tensor, "times"], process: Process) -> Float[Tensor, "times"]:
    """Return the times at which these shares of the signal that is lost at t = 1 are lost."""
    schedule, one = process.schedule, torch.ones(1, dtype=torch.float64)
    times = schedule.inverse_lost(schedule.lost(one) * levels)
    return torch.where((levels == 0) | (levels == 1), levels, times)


def _power(grid: str) -> float:
    try:
        value = float(grid.partition(":")[2])
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= 10:
        raise ValueError(f"the grid power needs a number in [0.1, 10], as in power:1.5, got {grid!r}")
    return value


def interpolated(stored: Any, count: int) -> Float[Tensor, "times"]:
    """Return the levels of `count` steps: those stored for the nearest number, read as a function of u."""
    if not isinstance(stored, Mapping) or not stored or not all(COUNT.fullmatch(str(key)) for key in stored):
        raise ValueError(f"fitted grids are stored by their numbers of steps, got {str(stored)[:80]}; fit them again")
    nearest_count = min(stored, key=lambda key: abs(math.log(int(key) / count)))
    try:
        levels = torch.tensor(stored[nearest_count], dtype=torch.float64)
    except (TypeError, ValueError):
        levels = torch.zeros(0)
    falls = levels.ndim == 1 and len(levels) == int(nearest_count) + 1 and bool((levels.diff() < 0).all())
    if not falls or levels[0] != 1 or levels[-1] != 0:
        kept = str(stored[nearest_count])[:80]
        raise ValueError(f"a fitted grid of {nearest_count} steps falls from 1 to 0, got {kept}; fit it again")
    at = torch.linspace(0, len(levels) - 1, count + 1, dtype=torch.float64)
    low = at.long().clamp(max=len(levels) - 2)
    return torch.lerp(levels[low], levels[low + 1], at - low)
