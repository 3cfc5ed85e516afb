"""The validation figure: `nelbo` of held-out rows, one time per sequence, the same states at every call."""

import torch

from tokenloom.data.base import Dataset
from tokenloom.models.model import DiffusionModel
from tokenloom.objectives.likelihood import ALONE, Likelihood, Workers, nelbo
from tokenloom.training.batches import seeded
from tokenloom.training.methods import Method

BATCH = 64


def each_process(model: DiffusionModel, method: Method) -> list[DiffusionModel]:
    """The model under each process that it is trained with; its own is the first."""
    return [model, *(model.with_process(process) for process in method.processes[1:])]


def validate(model: DiffusionModel, data: Dataset, rows: int, seed: int, workers: Workers = ALONE) -> Likelihood:
    """The bound, or likelihood, of the first held-out rows."""
    count = min(rows, len(data.valid))
    generator = seeded(seed, "validation")
    x_0, given = data.draw("valid", torch.arange(count), generator)
    return nelbo(model, x_0, samples=1, generator=generator, batch=BATCH, given=given, workers=workers)
