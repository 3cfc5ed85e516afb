"""The likelihood bound of held-out sequences: the same rows and, row by row, the same noise for every network.

Beside the strict bound stands what papers report, its integral from t = 0.001 on alone, under the name `truncated`: no
bound.  On a Markov chain the figure to compare is `above_exact`, against the exact model (`exact.py`).  A network that
reads the evidence has a bound under every process.
"""

from dataclasses import dataclass
from typing import Any

import torch

from evidence.groups import group_means
from evidence.measures.base import Measure, opened
from evidence.measures.exact import BATCH, excess, floor_groups, nats_per_token
from evidence.runs import Place, Run
from tokenloom import nelbo
from tokenloom.cells import PROCESSES
from tokenloom.data.base import take
from tokenloom.data.markov import MarkovSource
from tokenloom.models.protocol import Model
from tokenloom.types import PerRow, Tokens

SAMPLES = 8
"""Times per sequence."""
TRUNCATED_AT = 1e-3
"""The time that the integral of papers begins at."""
SEED, FRESH_SEED = 0, 77


@dataclass(frozen=True)
class LikelihoodBound(Measure):
    """Nats and bits per token, their parts, and the nats above the entropy where the law is known."""

    name: str = "bound"
    process: str | None = None
    """The name of a process to score under; by default the model's own."""

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        chosen = place.setting(run.setting)
        exact = {"fresh": chosen.fresh, "fresh_seed": FRESH_SEED} if isinstance(chosen.source, MarkovSource) else {}
        scored = {"rows": chosen.scored, "samples": SAMPLES, "seed": SEED, "truncated_at": TRUNCATED_AT}
        return scored | exact | ({} if self.process is None else {"process": self.process})

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen = place.setting(run.setting)
        model, data = opened(run, place).model, chosen.source.load()
        if self.process is not None:
            known = {"vocab_size": model.process.vocab_size, "schedule": model.schedule}
            model = model.with_process(PROCESSES.parse(self.process, **known))
        x_0 = take(data.valid, torch.arange(min(chosen.scored, len(data.valid))))
        figure = nelbo(model, x_0, SAMPLES, generator=torch.Generator().manual_seed(SEED), batch=BATCH)
        own = figure.per_sequence / x_0.shape[1]
        found = figure.record() | {"per_token_groups": group_means(own)}
        if not model.causal:
            found["truncated"] = _mean(nats_per_token(model, x_0, SAMPLES, SEED, TRUNCATED_AT))
        if isinstance(chosen.source, MarkovSource):
            found |= _above(own, model, chosen.source, x_0, chosen.fresh, place)
        return found | {"entropy": data.entropy}


def _above(own: PerRow, model: Model, source: MarkovSource, x_0: Tokens, fresh: int, place: Place) -> dict[str, Any]:
    """The nats per token above the entropy: the excess over the exact model, and the floor of that."""
    over = excess(own, model, source, x_0, SAMPLES, SEED)
    lowest = floor_groups(model, source, fresh, SAMPLES, FRESH_SEED, place.folder / "floors" / place.scale)
    groups = torch.tensor(group_means(over), dtype=torch.float64) + lowest
    error = float(lowest.std() / len(lowest) ** 0.5)
    return {
        "above_exact": float(over.mean() + lowest.mean()),
        "above_exact_groups": groups.tolist(),
        "excess": float(over.mean()),
        "floor": {"per_token": float(lowest.mean()), "error": error},
    }


def _mean(values: PerRow) -> dict[str, Any]:
    return {"per_token": float(values.mean()), "per_token_groups": group_means(values)}
