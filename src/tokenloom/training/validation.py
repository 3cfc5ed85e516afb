"""The validation figure: a bound in nats a token, with its standard error, from times as `time_integral` draws them.

Several processes share the work: each scores every so many-th chunk of rows, and the sums are added.  A chunk is the
same whoever scores it, so the figure does not depend on the number of processes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from tokenloom.data.base import Dataset, take
from tokenloom.grouped_ratio import grouped_ratio
from tokenloom.model import DiffusionModel
from tokenloom.objectives import NextToken, Objective, PriorTerm
from tokenloom.objectives.head_loss import loss_at
from tokenloom.objectives.prior_term import leaves_signal
from tokenloom.objectives.time_integral import group_levels, group_size, levels_to_times
from tokenloom.training.batches import Batch, seeded
from tokenloom.training.sharding import Root

CHUNK = 64


@dataclass(frozen=True)
class Workers:
    """Which of how many processes this is, and the sum of a tensor over all of them."""

    rank: int = 0
    count: int = 1
    add: Callable[[Tensor], Tensor] = torch.Tensor.clone


ALONE = Workers()


@dataclass(frozen=True)
class Figure:
    """Nats a free token."""

    nats: float
    standard_error: float
    sequences: int

    def __str__(self) -> str:
        return f"{self.nats:.4f} ± {self.standard_error:.4f}"


@torch.inference_mode()
def validate(
    model: DiffusionModel | Root,
    bound: Objective,
    data: Dataset,
    rows: int,
    seed: int,
    workers: Workers = ALONE,
) -> Figure:
    """One time a sequence over the whole of [0, 1], the same states at every call; prior term included."""
    root = model if isinstance(model, Root) else Root(model)
    count = min(rows, len(data.valid))
    generator = seeded(seed, "validation")
    x_0 = take(data.valid, torch.arange(count))
    puzzle = None if data.puzzles is None else data.puzzles[1][:count]
    fixed = None if data.draw_fixed is None else data.draw_fixed(x_0, puzzle, generator)
    exact = isinstance(bound, NextToken)
    group = 1 if exact else group_size(count, 1)
    levels = group_levels(count, 1, group, "stratified", generator, x_0.device).flatten()
    times, lengths = levels_to_times(levels, root.model.process)
    free = torch.ones(x_0.shape, dtype=torch.float64) if fixed is None else (~fixed).double()
    terms = [(bound, free)] if exact else [(bound, lengths[:, None] * free)]
    if not exact and leaves_signal(root.model.process):
        terms.append((PriorTerm(), free))
    totals = torch.zeros(count, dtype=torch.float64, device=next(root.parameters()).device)
    root.eval()
    for term, weights in terms:
        noisy = term.corrupt(root.model.process, x_0, times, generator, fixed)
        _add_losses(totals, root, term, Batch(x_0, noisy, weights), workers)
    return Figure(*grouped_ratio(workers.add(totals).cpu(), free.sum(-1), group), count)


def _add_losses(totals: Tensor, root: Root, term: Objective, batch: Batch, workers: Workers) -> None:
    """Add the losses of this process's chunks to those of their rows."""
    chunks = [slice(start, start + CHUNK) for start in range(0, len(totals), CHUNK)]
    for first in range(0, len(chunks), workers.count):
        index = first + workers.rank
        rows = chunks[index % len(chunks)]  # one without a chunk of its own runs too, since a model in parts needs all
        losses = root(partial(_row_losses, term, batch.part(rows).to(totals.device)))
        if index < len(chunks):
            totals[rows] += losses


def _row_losses(term: Objective, batch: Batch, model: DiffusionModel) -> Tensor:
    loss = loss_at(model, term, batch.x_0, batch.noisy, batch.weights)
    return (loss.per_token * batch.weights).sum(-1)
