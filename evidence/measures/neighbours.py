r"""How far the neighbours in samples are from those of a Markov chain, by sampler at equal evaluations.

    pairs = (1/2) sum_{a,b} | n_ab / n - p_ab |,      p_ab = (1/(L-1)) sum_l P(x^l = a, x^{l+1} = b), exact,

triples likewise, and `nats` are the exact likelihood's.  Even exact samples have a distance, from the noise of n
counts: `floor` is that of as many sequences of the chain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from evidence.measures.base import Measure, opened
from evidence.measures.budget import counted_on, spending
from evidence.runs import Place, Run
from tokenloom.data.markov import MarkovSource, markov_chain
from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.evaluation.grid_fit import fit_grids
from tokenloom.models.model import DiffusionModel
from tokenloom.models.protocol import Model
from tokenloom.samplers.options import SamplerOptions
from tokenloom.types import Tokens

BATCH = 512
SEQUENCES = 8
"""Times the samples of a point of a curve."""
FITTED = 512
"""Training sequences that a grid is fitted to and judged on."""

_uniform = partial(SamplerOptions, grid="uniform")
REDRAWN = {
    "ancestral": _uniform(),
    "mudm:resample=true": _uniform(sampler="mudm:resample=true"),
    "mudm": _uniform(sampler="mudm"),
}
CORRECTED = {
    "none": _uniform(),
    "balanced": _uniform(corrector="balanced"),
    "random-scan": _uniform(corrector="random-scan"),
    "informed": _uniform(corrector="informed:temperature=1"),
}
GRIDS = {grid: SamplerOptions(grid=grid) for grid in ("uniform", "power:1.5", "information", "fitted")}


def window_law(source: MarkovSource, size: int) -> Tensor:
    """The law of `size` neighbouring tokens of a chain, averaged over their places."""
    law, transition = markov_chain(source.vocab_size, source.seed)
    total = torch.zeros([source.vocab_size] * size, dtype=torch.float64)
    for _ in range(source.length - size + 1):
        window = law
        for _ in range(size - 1):
            window = window.unsqueeze(-1) * transition
        total += window
        law = law @ transition
    return total / total.sum()


def window_distance(tokens: Tokens, law: Tensor) -> float:
    """The total variation between the windows of sequences and their law."""
    size, K = law.ndim, law.shape[0]
    places = K ** torch.arange(size - 1, -1, -1)
    counts = torch.bincount((tokens.unfold(1, size, 1) * places).sum(-1).flatten(), minlength=K**size).double()
    return 0.5 * float((counts / counts.sum() - law.flatten()).abs().sum())


def measured(tokens: Tokens, source: MarkovSource) -> dict[str, float]:
    """The figures of sequences."""
    return {
        "pairs": window_distance(tokens, window_law(source, 2)),
        "triples": window_distance(tokens, window_law(source, 3)),
        "nats": float(-source.oracle().log_likelihood(tokens).mean()) / tokens.shape[1],
    }


@dataclass(frozen=True)
class Neighbours(Measure):
    """budget -> sampler -> figures, and the floor."""

    samplers: Mapping[str, SamplerOptions] = field(default_factory=dict)
    budgets: tuple[int, ...] = ()

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        return {
            "samples": SEQUENCES * place.setting(run.setting).samples,
            "evaluations": [place.budget(budget) for budget in self.budgets],
            "samplers": {name: [item.kernels, item.grid] for name, item in self.samplers.items()},
        }

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen, model = place.setting(run.setting), opened(run, place).model
        source, count = chosen.source, SEQUENCES * chosen.samples
        assert isinstance(source, MarkovSource)
        if "fitted" in self.samplers:
            model = with_fitted_grids(model, chosen.source.load().train[: min(FITTED, chosen.scored)])
        counted = counted_on(model)
        found: dict[str, Any] = {
            str(budget): {
                name: _drawn(model, spending(options, place.budget(budget), counted), count, run.seed, source)
                for name, options in self.samplers.items()
            }
            for budget in self.budgets
        }
        exact = source.oracle().sample(count, torch.Generator().manual_seed(run.seed))
        return found | {"floor": measured(exact, source)}


def with_fitted_grids(model: DiffusionModel, rows: Tokens) -> DiffusionModel:
    """Fit grids to rows, as `tokenloom fit-grid` does, and let the model keep all of them."""
    stored = {str(each.steps): list(each.levels) for each in fit_grids(model, rows.long(), None)}
    return model.describe(grids={model.process.name: stored})


def _drawn(model: Model, options: SamplerOptions, count: int, seed: int, source: MarkovSource) -> dict[str, float]:
    sampler, parts, evaluations = options.sampler_value(), [], 0
    for first in range(0, count, BATCH):
        seeds = [derive_seed(seed, "neighbours", row) for row in range(first, min(first + BATCH, count))]
        samples = sampler.run(model, len(seeds), generator=RowGenerators(seeds))
        parts.append(samples.tokens)
        evaluations += int(samples.evaluations.sum())
    return measured(torch.cat(parts), source) | {"steps": options.steps, "evaluations": evaluations / count}
