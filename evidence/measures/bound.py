"""The likelihood bound of held-out sequences: the same rows and, row by row, the same seeds for every network."""

from dataclasses import dataclass
from typing import Any

import torch

from evidence.measures.base import Measure, opened
from evidence.runs import Place, Run
from tokenloom import nelbo
from tokenloom.data.base import take

SAMPLES = 4
"""Times per sequence."""


@dataclass(frozen=True)
class LikelihoodBound(Measure):
    """Nats and bits per token, and the nats above the exact likelihood of the same rows where the law is known."""

    name: str = "bound"

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        return {"rows": place.setting(run.setting).scored, "samples": SAMPLES, "seed": 0, "zero": "exact likelihood"}

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen = place.setting(run.setting)
        model, data = opened(run, place).model, chosen.source.load()
        x_0 = take(data.valid, torch.arange(min(chosen.scored, len(data.valid))))
        figure = nelbo(model, x_0, samples=SAMPLES, generator=torch.Generator().manual_seed(0), batch=256)
        oracle = chosen.source.oracle()
        exact = None if oracle is None else -float(oracle.log_likelihood(x_0).double().mean()) / x_0.shape[1]
        above = None if exact is None else figure.per_token - exact
        return figure.record() | {"entropy": data.entropy, "exact": exact, "above_exact": above}
