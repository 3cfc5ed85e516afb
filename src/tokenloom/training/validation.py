"""The validation figure: `nelbo` of held-out rows, one time per sequence, the same states at every call."""

import torch

from tokenloom.data.base import Dataset
from tokenloom.models.protocol import Model
from tokenloom.objectives.likelihood import ALONE, Likelihood, Workers, nelbo
from tokenloom.training.batches import seeded

BATCH = 64


def validate(model: Model, data: Dataset, rows: int, seed: int, workers: Workers = ALONE) -> Likelihood:
    """Return the bound, or likelihood, of the first held-out rows."""
    generator = seeded(seed, "validation")
    x_0, given = data.draw("valid", torch.arange(min(rows, len(data.valid))), generator)
    return nelbo(model, x_0, samples=1, generator=generator, batch=BATCH, given=given, workers=workers)
