r"""What a step trains on, as a function of the seed and the step alone.

Every random number of step i comes from a generator seeded by (seed, i), and rows from a permutation seeded by
(seed, epoch).  So a resumed run draws what an uninterrupted one would have drawn, with nothing to restore; and several
processes, each drawing the whole batch and keeping its part, see what one process would have seen.

Times are antithetic over the whole batch: t_j = floor + (1 - floor) ((u + j)/B mod 1), one u a step.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Generator, Tensor

from tokenloom.data.base import Dataset, take
from tokenloom.objectives.base import Objective
from tokenloom.processes.base import Process
from tokenloom.randomness import derive_seed
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class Batch:
    """Clean sequences, their noisy states and the weight of every position in the mean."""

    x_0: Tokens
    noisy: Noisy
    weights: PerPosition

    def part(self, rows: slice) -> "Batch":
        """Some rows."""
        return Batch(self.x_0[rows], self.noisy.sequences(rows), self.weights[rows])

    def to(self, device: torch.device) -> "Batch":
        """On another device; levels stay float64 where the device has it."""
        noisy = self.noisy
        moved = replace(
            noisy,
            tokens=noisy.tokens.to(device),
            t=noisy.t.to(device),
            alpha_t=noisy.alpha_t.to(device),
            aux=None if noisy.aux is None else noisy.aux.to(device),
            fixed=None if noisy.fixed is None else noisy.fixed.to(device),
        )
        return Batch(self.x_0.to(device), moved, self.weights.to(device))


def seeded(*key: int | str) -> Generator:
    """A generator that depends on nothing but its key."""
    return torch.Generator().manual_seed(derive_seed(*key))


def training_batch(
    data: Dataset, process: Process, objective: Objective, size: int, step: int, seed: int, floor: float
) -> Batch:
    """The batch of a step."""
    generator = seeded(seed, "step", step)
    rows = rows_of(len(data.train), size, step, seed)
    x_0, puzzle = take(data.train, rows), None if data.puzzles is None else data.puzzles[0][rows]
    if data.augment is not None:
        x_0, puzzle = data.augment(x_0, puzzle, generator)
    fixed = None if data.draw_fixed is None else data.draw_fixed(x_0, puzzle, generator)
    times = antithetic_times(size, generator, floor)
    free = torch.ones(x_0.shape, dtype=torch.float64) if fixed is None else (~fixed).double()
    return Batch(x_0, objective.corrupt(process, x_0, times, generator, fixed), free / free.sum().clamp(min=1))


def rows_of(count: int, size: int, step: int, seed: int) -> Tensor:
    """The rows of a step: each epoch visits every row once, in an order of its own."""
    position = torch.arange(step * size, (step + 1) * size)
    epochs = position // count
    index = torch.empty_like(position)
    for epoch in range(int(epochs[0]), int(epochs[-1]) + 1):
        order = _order(count, seed, epoch)
        here = epochs == epoch
        index[here] = order[position[here] % count]
    return index


@lru_cache(maxsize=2)
def _order(count: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=seeded(seed, "epoch", epoch))


def antithetic_times(size: int, generator: Generator, floor: float) -> PerRow:
    """Evenly spread over [floor, 1], shifted together by one uniform number."""
    offset = torch.rand((), generator=generator, dtype=torch.float64)
    return floor + (1 - floor) * ((offset + torch.arange(size, dtype=torch.float64)) / size % 1)
