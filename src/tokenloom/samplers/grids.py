"""The times a sampler visits, from 1 down to 0."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

GridName = Literal["uniform", "cosine"]
Grid = GridName | Sequence[float] | Float[Tensor, "times"]
"""A named grid, or the times themselves."""


def time_grid(grid: Grid, steps: int) -> Float[Tensor, "times"]:
    """`steps` + 1 times: evenly spaced; by t = 1 - cos(pi/2 u), which goes slowly near 0; or those given."""
    if not isinstance(grid, str):
        times = torch.as_tensor(grid, dtype=torch.float64)
        if times.ndim != 1 or len(times) < 2 or times[0] != 1 or times[-1] != 0 or not bool((times.diff() < 0).all()):
            raise ValueError(f"a grid is a vector of times that falls from 1 to 0, got {times.tolist()}")
        return times
    even = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    if grid == "uniform":
        return even
    times = 1 - torch.cos(even * math.pi / 2)
    times[0] = 1.0
    return times
