"""The validation figure: a bound in nats a token, with its standard error over sequences."""

import math
from dataclasses import dataclass

import torch

from tokenloom.data.base import Dataset, take
from tokenloom.model import DiffusionModel
from tokenloom.objectives import NextToken, Objective, PriorTerm
from tokenloom.objectives.head_loss import loss_at
from tokenloom.training.batches import Batch, antithetic_times, seeded

CHUNK = 64


@dataclass(frozen=True)
class Figure:
    """Nats a free token."""

    nats: float
    standard_error: float
    sequences: int

    def __str__(self) -> str:
        return f"{self.nats:.4f} ± {self.standard_error:.4f}"


@torch.inference_mode()
def validate(model: DiffusionModel, bound: Objective, data: Dataset, rows: int, seed: int) -> Figure:
    """One stratified time a sequence over the whole of [0, 1], the same states at every call; prior term included."""
    count = min(rows, len(data.valid))
    generator = seeded(seed, "validation")
    x_0 = take(data.valid, torch.arange(count))
    puzzle = None if data.puzzles is None else data.puzzles[1][:count]
    fixed = None if data.draw_fixed is None else data.draw_fixed(x_0, puzzle, generator)
    times = antithetic_times(count, generator, 0.0).clamp(min=1e-9)
    order = torch.randperm(count, generator=generator)
    free = torch.ones(x_0.shape, dtype=torch.float64) if fixed is None else (~fixed).double()
    terms = [bound] if isinstance(bound, NextToken) else [bound, PriorTerm()]
    totals = torch.zeros(count, dtype=torch.float64)
    device = next(model.parameters()).device
    model.eval()
    for term in terms:
        noisy = term.corrupt(model.process, x_0, times[order], generator, fixed)
        for start in range(0, count, CHUNK):
            batch = Batch(x_0, noisy, free).part(slice(start, start + CHUNK)).to(device)
            loss = loss_at(model, term, batch.x_0, batch.noisy, batch.weights)
            totals[start : start + CHUNK] += (loss.per_token * batch.weights).sum(-1).cpu()
    tokens = free.sum(-1)
    mean = float(totals.sum() / tokens.sum())
    spread = float(((totals - mean * tokens) ** 2).sum().sqrt() / tokens.sum())
    return Figure(mean, spread * math.sqrt(count / max(1, count - 1)), count)
