r"""The batch of a step, as a function of the seed and the step alone; and the validation figure, on fixed states.

Every random number of row j of step i comes from a generator seeded by (seed, i, j), and rows from a permutation seeded
by (seed, epoch).  So a resumed run draws what an uninterrupted one would have drawn, with nothing to restore; and
several processes, each taking its rows of the batch, see what one process would have seen.

Times are antithetic over the whole batch: t_j = floor + (1 - floor) ((u + j)/B mod 1)^power, one uniform u per step.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from tokenloom.data.base import Dataset
from tokenloom.drawing.randomness import row_seeds, seeded
from tokenloom.models.protocol import Model
from tokenloom.objectives.likelihood import ALONE, Likelihood, Workers, nelbo
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

VALIDATED = 64  # validation rows per network call


@dataclass(frozen=True)
class Batch:
    """Clean sequences with their times, given positions, the weight of each position in the mean and a seed per row."""

    x_0: Tokens
    t: PerRow
    given: Flags | None
    weights: PerPosition
    seeds: tuple[int, ...]

    def part(self, rows: slice) -> "Batch":
        """Return some rows of the batch."""
        given = None if self.given is None else self.given[rows]
        return Batch(self.x_0[rows], self.t[rows], given, self.weights[rows], self.seeds[rows])


def training_batch(data: Dataset, size: int, step: int, seed: int, floor: float, power: float = 1.0) -> Batch:
    """Draw the batch of a step."""
    generator = seeded(seed, "step", step)
    rows = rows_of(len(data.train), size, step, seed)
    x_0, given = data.draw("train", rows, generator)
    offset = torch.rand((), generator=generator, dtype=torch.float64)
    times = floor + (1 - floor) * ((offset + torch.arange(size, dtype=torch.float64)) / size % 1) ** power
    free = torch.ones(x_0.shape, dtype=torch.float64) if given is None else (~given).double()
    return Batch(x_0, times, given, free / free.sum().clamp(min=1), row_seeds(size, seed, "row", step))


def rows_of(count: int, size: int, step: int, seed: int) -> Tensor:
    """Return the indices of the rows of a step: each epoch visits every row once, in an order of its own."""
    begin, end = step * size, (step + 1) * size
    epochs = range(begin // count, (end - 1) // count + 1)
    return torch.cat([_order(count, seed, each)[max(0, begin - each * count) : end - each * count] for each in epochs])


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=seeded(seed, "epoch", epoch))


def validate(model: Model, data: Dataset, rows: int, seed: int, workers: Workers = ALONE) -> Likelihood:
    """Return the bound, or likelihood, of the first held-out rows, with the same noise at every call.

    Each has one time or, where there are fewer rows than asked for, as many as make up for them.
    """
    generator, found = seeded(seed, "validation"), min(rows, len(data.valid))
    x_0, given = data.draw("valid", torch.arange(found), generator)
    return nelbo(
        model, x_0, samples=math.ceil(rows / found), generator=generator, batch=VALIDATED, given=given, workers=workers
    )
