"""What a training run draws now and then (`--run.sample-every`): samples, by their entropy, their perplexity under a
judge and the figures that only their data knows, and a few of them as text.

Samples are those of the averaged weights, from the same seeds at every step, so that two of them differ by what was
learnt in between.  Where held-out rows have given positions, as puzzles have, these are given.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch

from tokenloom.data.base import Dataset, Source
from tokenloom.drawing.randomness import RowGenerators, derive_seed, seeded
from tokenloom.evaluation.judges import Judge, load_judge, rate
from tokenloom.evaluation.metrics import unigram_entropy
from tokenloom.models.evaluating import evaluating
from tokenloom.models.model import DiffusionModel
from tokenloom.samplers.sampler import Sampler
from tokenloom.support.checks import check_least

SHOWN = 4  # samples that are kept as text
BATCH = 16  # samples per network call


@dataclass(frozen=True)
class Observer:
    """Draws `count` samples in `steps` network evaluations each, and measures them."""

    judge: Judge | None
    count: int
    steps: int
    seed: int

    @classmethod
    def load(cls, judge: str | None, source: Source, count: int, steps: int, seed: int) -> "Observer":
        """Load the judge, and raise if it cannot read samples of this source."""
        loaded = None if judge is None else load_judge(judge, source)
        if loaded is not None and loaded.reads_text and not source.is_text:
            raise ValueError(f"the judge {judge} reads text, but the data is {source.kind}; leave out --run.judge")
        return cls(loaded, count, steps, seed)

    def __post_init__(self) -> None:
        check_least(self, count=1, steps=1)

    def __call__(self, model: DiffusionModel, data: Dataset) -> dict[str, Any]:
        """Return the figures of fresh samples by name, and `samples`, a few of them as text."""
        chosen = torch.arange(self.count) % len(data.valid)
        x_0, given = data.draw("valid", chosen, seeded(self.seed, "observed"))
        device = model.device or torch.device("cpu")
        rows, parts = RowGenerators.spawn(derive_seed(self.seed, "samples"), self.count, device), []
        with evaluating(model):
            for first in range(0, self.count, BATCH):
                part = range(self.count)[first : first + BATCH]
                here = slice(first, part.stop)
                known = None if given is None else (x_0[here].to(device), given[here].to(device))
                sampler = Sampler(steps=self.steps)
                drawn = sampler.run(model, len(part), length=data.length, given=known, generator=rows.select(part))
                parts.append(drawn.tokens.cpu())
        tokens = torch.cat(parts)
        found: dict[str, Any] = {"sample_entropy": float(unigram_entropy(tokens).mean())}
        if self.judge is not None:
            perplexity = rate(self.judge, tokens, data.decode).perplexity
            found["sample_perplexity"] = perplexity if math.isfinite(perplexity) else None
        found |= {f"sample_{name}": value for name, value in data.grades(tokens).items()}
        return found | {"samples": [data.decode.shown(row) for row in tokens[:SHOWN].tolist()]}
