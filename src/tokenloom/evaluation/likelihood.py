r"""The likelihood of data under a model, in nats, with an error bar that means what it says.

    -log p(x_0) <= prior term + int_0^1 E[loss of x_t] dt,      one number a sequence, X_i, from `samples` times each;

exact and without times for a causal network.  `objectives.time_integral` says how the times are drawn and how the
error follows.  It covers the draw of the sequences and of the noise, as an estimate of the mean over all data.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from tokenloom.grouped_ratio import grouped_ratio
from tokenloom.model import DiffusionModel
from tokenloom.objectives import NextToken, Objective, PriorTerm, bound_of
from tokenloom.objectives.head_loss import loss_at
from tokenloom.objectives.prior_term import leaves_signal, uniform_prior_divergence
from tokenloom.objectives.time_integral import Times, group_levels, group_size, levels_to_times
from tokenloom.oracle import ExactModel
from tokenloom.processes import Uniform
from tokenloom.training.batches import Batch
from tokenloom.types import Flags, PerRow, Tokens


@dataclass(frozen=True)
class Likelihood:
    """Nats a sequence and a free token; an upper bound of -log p unless `exact`."""

    nats: float
    """A sequence."""
    standard_error: float
    """Of `nats`; NaN for a single sequence."""
    per_token: float
    """Nats a free token."""
    per_token_error: float
    """Standard error of `per_token`."""
    sequences: int
    tokens: int
    """Free tokens."""
    time_samples: int
    """Times a sequence; 0 where none are needed."""
    estimator: str
    exact: bool

    @property
    def bits_per_token(self) -> float:
        """Nats a token in base 2."""
        return self.per_token / math.log(2)

    @property
    def perplexity(self) -> float:
        """exp(nats a token)."""
        return math.exp(self.per_token)

    def __str__(self) -> str:
        return f"{self.per_token:.4f} ± {self.per_token_error:.4f}"


@torch.inference_mode()
def nelbo(
    model: DiffusionModel | ExactModel,
    x_0: Tokens,
    samples: int = 4,
    times: Times = "stratified",
    generator: Generator | None = None,
    batch: int = 64,
    fixed: Flags | None = None,
) -> Likelihood:
    """The negative log-likelihood of the free positions of `x_0`, or its bound; `batch` rows a network call."""
    _check(x_0, samples, times, batch)
    model.process.check_clean(x_0, fixed)
    bound = bound_of(model.process, model.predicts, model.causal)
    bound.check(model.process, model.predicts, model.hollow, model.causal)
    exact = isinstance(bound, NextToken)
    samples, count = 1 if exact else samples, len(x_0)
    group = 1 if exact else group_size(count, samples)
    with evaluating(model):
        u = group_levels(count, samples, group, times, generator, x_0.device).flatten()
        t, weights = levels_to_times(u, model.process)
        repeated = x_0.repeat_interleave(samples, 0), None if fixed is None else fixed.repeat_interleave(samples, 0)
        rows = _row_nats(model, bound, *repeated, t, generator, batch) * (1 if exact else weights.cpu())
        totals = rows.view(count, samples).mean(-1)
        if not exact:
            totals = totals + _prior_nats(model, x_0, generator, batch, fixed)
    free = torch.full_like(totals, x_0.shape[1]) if fixed is None else (~fixed).sum(-1, dtype=torch.float64).cpu()
    nats, error = grouped_ratio(totals, torch.ones_like(totals), group)
    per_token, per_token_error = grouped_ratio(totals, free, group)
    how = "exact, next token" if exact else f"{type(bound).__name__} + prior term, {times} times in groups of {group}"
    used = 0 if exact else samples
    return Likelihood(nats, error, per_token, per_token_error, count, int(free.sum()), used, how, exact)


@contextmanager
def evaluating(model: DiffusionModel | ExactModel) -> Iterator[None]:
    """Dropout off for a while."""
    training = isinstance(model, DiffusionModel) and model.training
    if isinstance(model, DiffusionModel):
        model.eval()
    try:
        yield
    finally:
        if isinstance(model, DiffusionModel):
            model.train(training)


def device_of(model: DiffusionModel | ExactModel, default: torch.device) -> torch.device:
    """Where the weights are."""
    first = next(model.parameters(), None) if isinstance(model, DiffusionModel) else None
    return default if first is None else first.device


def _row_nats(
    model: DiffusionModel | ExactModel,
    term: Objective,
    x_0: Tokens,
    fixed: Flags | None,
    t: PerRow,
    generator: Generator | None,
    batch: int,
) -> PerRow:
    """A term's sum over the free positions of every row."""
    device = device_of(model, x_0.device)
    totals: list[Tensor] = []
    for start in range(0, len(x_0), batch):
        part = slice(start, start + batch)
        given = None if fixed is None else fixed[part]
        noisy = term.corrupt(model.process, x_0[part], t[part], generator, given)
        weights = torch.ones_like(t[part])[:, None].expand_as(x_0[part])
        rows = Batch(x_0[part], noisy, weights).to(device)
        totals.append(loss_at(model, term, rows.x_0, rows.noisy, rows.weights).per_token.sum(-1).double().cpu())
    return torch.cat(totals)


def _prior_nats(
    model: DiffusionModel | ExactModel, x_0: Tokens, generator: Generator | None, batch: int, fixed: Flags | None
) -> PerRow:
    """The prior term of every row; uniform noise needs no network for it, and alpha_1 = 0 no term."""
    one = torch.ones(len(x_0), dtype=torch.float64)
    if not leaves_signal(model.process):
        return torch.zeros_like(one)
    PriorTerm().check(model.process, model.predicts, model.hollow, model.causal)
    if isinstance(model.process, Uniform):
        alpha_1 = model.process.alpha(one)
        free = torch.ones_like(x_0, dtype=torch.bool) if fixed is None else ~fixed
        return uniform_prior_divergence(alpha_1, model.process.vocab_size) * free.sum(-1).cpu()
    return _row_nats(model, PriorTerm(), x_0, fixed, one.to(x_0.device), generator, batch)


def _check(x_0: Tensor, samples: int, times: str, batch: int) -> None:
    if not len(x_0):
        raise ValueError("x_0 holds no sequence; there is nothing to score")
    for name, value in (("samples", samples), ("batch", batch)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if times not in ("antithetic", "stratified"):
        raise ValueError(f"times must be antithetic or stratified, got {times!r}")
