"""How much the leave-one-out prediction of a position depends on the token at it (`evaluation/probe.py`)."""

from dataclasses import asdict, dataclass
from typing import Any

import torch

from evidence.measures.base import Measure, opened
from evidence.runs import Place, Run
from tokenloom.data.base import take
from tokenloom.evaluation.probe import Effort, probe

TIMES = (0.1, 0.3, 0.5, 0.7, 0.9)
ROWS = 64
MEANS = ("total_variation", "divergence")
EFFORT = Effort(positions=4, substitutes=12, batch=768)


@dataclass(frozen=True)
class OwnToken(Measure):
    """Total variation and divergence between predictions for different own tokens, by time and on average."""

    name: str = "own token"

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        rows = min(ROWS, place.setting(run.setting).scored)
        return {"rows": rows, "times": list(TIMES), "positions": EFFORT.positions, "substitutes": EFFORT.substitutes}

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen = place.setting(run.setting)
        x_0 = take(chosen.source.load().valid, torch.arange(min(ROWS, chosen.scored)))
        found = probe(opened(run, place).model, x_0, TIMES, EFFORT, torch.Generator().manual_seed(0))
        means = {name: sum(getattr(item, name) for item in found) / len(found) for name in MEANS}
        return {"times": [asdict(item) for item in found], **means, "zero": 0.0}
