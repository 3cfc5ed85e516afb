r"""Bounds on a Markov chain above its entropy, against an exact model that sees the same states.

Most of the error of a bound is that of the rows and of the noise, and the exact posteriors under the same process, in
the same representation, pay it too.  So with X_i the bound of row i, and primes for fresh rows,

    above the entropy  =  E[ X_i(network) - X_i(exact model) ]  +  E[ X'_i(exact model) + log p(x'_i) ].

The first term is measured on the rows and noise of every other figure; an exact network has 0 there without error.  The
second, the floor, is what even exact posteriors pay: nothing in theory for the Markov coupling and for absorbing and
masked processes, up to the correlation that a last step from a small t leaves out, but something for maximal coupling.
It is one figure per process and representation, kept at a place, on the same fresh rows for all.
"""

from pathlib import Path

import torch
from torch import Tensor

from evidence.groups import group_means
from tokenloom.data.markov import MarkovSource
from tokenloom.models.protocol import Model
from tokenloom.objectives.likelihood import nelbo
from tokenloom.oracles import MarkovOracle
from tokenloom.support.files import write_json
from tokenloom.support.reading import read_json
from tokenloom.types import PerRow, Tokens

BATCH = 256


def nats_per_token(model: Model, x_0: Tokens, samples: int, seed: int, truncated_at: float | None = None) -> PerRow:
    """The bound of every row; rows and seed decide the noise, whatever the model."""
    generator = torch.Generator().manual_seed(seed)
    figure = nelbo(model, x_0, samples, generator=generator, batch=BATCH, truncated_at=truncated_at)
    return figure.per_sequence / x_0.shape[1]


def exact_model(source: MarkovSource, model: Model) -> Model:
    """The exact posteriors of a chain under the process of a model, in its representation."""
    chain = source.oracle()
    return MarkovOracle(chain.initial, chain.transition, chain.length, model.process, predicts=model.predicts)


def excess(own: PerRow, model: Model, source: MarkovSource, x_0: Tokens, samples: int, seed: int) -> PerRow:
    """A model's own bound of every row above that of the exact model; above -log p for a causal network."""
    if model.causal:
        return own + source.oracle().log_likelihood(x_0) / x_0.shape[1]
    return own - nats_per_token(exact_model(source, model), x_0, samples, seed)


def floor(model: Model, source: MarkovSource, rows: int, samples: int, seed: int) -> PerRow:
    """The bound of the exact model above -log p on fresh rows, in nats per token; 0 for a causal network."""
    x_0 = source.oracle().sample(rows, torch.Generator().manual_seed(seed))
    if model.causal:
        return torch.zeros(rows, dtype=torch.float64)
    log_p = source.oracle().log_likelihood(x_0) / x_0.shape[1]
    return nats_per_token(exact_model(source, model), x_0, samples, seed) + log_p


def floor_groups(model: Model, source: MarkovSource, rows: int, samples: int, seed: int, folder: Path) -> Tensor:
    """The means of groups of the floor's rows, from the folder if they are there."""
    path = folder / f"{model.process.name}-{model.predicts.__name__}.json"
    settings = source.record() | {"fresh": rows, "samples": samples, "fresh_seed": seed}
    kept = read_json(path) if path.exists() else None
    if not isinstance(kept, dict) or kept.get("settings") != settings:
        kept = {"settings": settings, "groups": group_means(floor(model, source, rows, samples, seed))}
        write_json(path, kept)
    return torch.tensor(kept["groups"], dtype=torch.float64)
