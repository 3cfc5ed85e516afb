r"""How far the pairs of neighbouring tokens in samples are from those of a Markov chain.

    distance = (1/2) sum_{a,b} | n_ab / n - p_ab |,      p_ab = (1/(L-1)) sum_l P(x^l = a, x^{l+1} = b), exact.

Even exact samples have a distance, from the noise of n counts; `floor` is that of as many sequences of the chain.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evidence.measures.base import Measure, opened
from evidence.runs import Place, Run
from tokenloom.data.markov import MarkovSource, markov_chain
from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.samplers import Sampler
from tokenloom.types import Tokens

SAMPLERS = ("ancestral", "mudm:resample=true", "mudm")
BATCH = 256


def pair_law(source: MarkovSource) -> Tensor:
    """p_ab of a chain."""
    law, transition = markov_chain(source.vocab_size, source.seed)
    total = torch.zeros_like(transition)
    for _ in range(source.length - 1):
        total += law[:, None] * transition
        law = law @ transition
    return total / (source.length - 1)


def pair_distance(tokens: Tokens, law: Tensor) -> float:
    """The distance of sequences from p_ab."""
    pairs = (tokens[:, :-1] * len(law) + tokens[:, 1:]).flatten()
    counts = torch.bincount(pairs, minlength=law.numel()).double()
    return 0.5 * float((counts / counts.sum() - law.flatten()).abs().sum())


@dataclass(frozen=True)
class Bigrams(Measure):
    """Distances by sampler."""

    name: str = "bigrams"

    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        chosen = place.setting(run.setting)
        return {"samples": 4 * chosen.samples, "evaluations": chosen.evaluations[-1], "samplers": list(SAMPLERS)}

    def of(self, run: Run, place: Place) -> dict[str, Any]:
        chosen, model = place.setting(run.setting), opened(run, place).model
        source, count = chosen.source, 4 * chosen.samples
        assert isinstance(source, MarkovSource)
        law, found = pair_law(source), {}
        for name in SAMPLERS:
            sampler, parts = Sampler.parse(name, steps=chosen.evaluations[-1], grid="uniform"), []
            for first in range(0, count, BATCH):
                seeds = [derive_seed(run.seed, "pairs", row) for row in range(first, min(first + BATCH, count))]
                parts.append(sampler.run(model, len(seeds), generator=RowGenerators(seeds)).tokens)
            found[name] = pair_distance(torch.cat(parts), law)
        exact = source.oracle().sample(count, torch.Generator().manual_seed(run.seed))
        return found | {"floor": pair_distance(exact, law)}
