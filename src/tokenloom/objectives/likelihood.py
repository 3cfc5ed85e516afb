r"""The likelihood of data under a model, in nats, with an error bar that means what it says.

    -log p(x_0) <= prior term + int_0^1 E[loss of x_t] dt,      one number X_i per sequence, from `samples` times each;

exact and without times for a causal network.  `time_integral.py` says how the times are drawn and the error follows.
It covers the draw of the sequences and of the noise, as an estimate of the mean over all data, few rows or many
(`grouped_ratio.py`).

The noise of a row comes from a generator of its own, so neither the batch nor the number of processes that share the
work changes a figure.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from tokenloom.drawing.randomness import Randomness, RowGenerators, derive_seed, starting_at
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.objectives.base import Objective
from tokenloom.objectives.cross_entropy import CrossEntropy
from tokenloom.objectives.grouped_ratio import grouped_ratio
from tokenloom.objectives.head_loss import loss_at
from tokenloom.objectives.lost_tokens import corrupted_given
from tokenloom.objectives.nelbo import Bound
from tokenloom.objectives.prior_term import PriorTerm, needs_no_network
from tokenloom.objectives.time_integral import Times, group_levels, group_size, keeping_times, losing_times
from tokenloom.process import Process
from tokenloom.support.memory import check_memory
from tokenloom.support.typed import checked
from tokenloom.support.words import counted
from tokenloom.types import Flags, PerRow, Tokens

Work = Callable[[Model], Tensor]


@dataclass(frozen=True, eq=False)
class Likelihood:
    """Nats per sequence and per free token; an upper bound of -log p unless `exact`."""

    nats: float
    """Mean nats per sequence."""
    standard_error: float
    """Standard error of `nats`: 1.96 each side cover the truth 95 times in 100; NaN for a single sequence."""
    per_token: float
    """Nats per free token."""
    per_token_error: float
    """Standard error of `per_token`."""
    sequences: int
    """Sequences that were scored."""
    tokens: int
    """Free tokens."""
    time_samples: int
    """Times per sequence; 0 where none are needed."""
    estimator: str
    """The terms of the bound and how its integral was estimated, in words."""
    exact: bool
    """True if it is -log p itself and not a bound."""
    per_sequence: Float[Tensor, "sequences"]
    """Nats of every sequence: unbiased, each with its own noise."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Nats per free token of each term of a bound, which sum to `per_token`."""

    @property
    def bits_per_token(self) -> float:
        """Nats per token in base 2."""
        return self.per_token / math.log(2)

    @property
    def perplexity(self) -> float:
        """exp(nats per token)."""
        return math.exp(self.per_token)

    def record(self) -> dict[str, Any]:
        """Return the figures for a file, without those of single sequences."""
        names = ("nats", "standard_error", "per_token", "per_token_error", "sequences", "tokens", "time_samples")
        derived = ("estimator", "exact", "bits_per_token", "perplexity")
        return {name: getattr(self, name) for name in (*names, *derived)} | {"parts": dict(self.parts)}

    def __str__(self) -> str:
        error = "" if math.isnan(self.per_token_error) else f" ± {self.per_token_error:.4f}"  # one sequence has none
        return f"{self.per_token:.4f}{error}"


@dataclass(frozen=True)
class Workers:
    """One of `count` processes: its rank, the sum of a tensor over all, and the way to call a model in parts."""

    rank: int = 0
    count: int = 1
    add: Callable[[Tensor], Tensor] = torch.Tensor.clone
    call: Callable[[Work], Tensor] | None = None

    def share(self, model: Model, rows: int, batch: int, score: Callable[[Tensor], PerRow]) -> PerRow:
        """Score rows of a model, `batch` at a time, each process its own, and return the nats of all."""
        found, chunks = torch.zeros(rows, dtype=torch.float64), torch.split(torch.arange(rows), batch)
        for first in range(0, len(chunks), self.count):
            number = first + self.rank
            chunk = chunks[number % len(chunks)]  # without a chunk of its own it runs too: a model in parts needs all
            nats = score(chunk)
            if number < len(chunks):
                found[chunk] = nats.cpu()
        return self.add(found.to(model.device or "cpu")).cpu()

    def called(self, model: Model, work: Work) -> PerRow:
        """Call `work` with the model, which may be in parts; it has the process of this run either way."""
        if self.call is None:
            return work(model)
        own = model.process
        return self.call(lambda whole: work(whole if whole.process is own else whole.with_process(own)))


ALONE = Workers()


@torch.no_grad()
@checked
def nelbo(
    model: Model,
    x_0: Tokens,
    samples: int = 4,
    times: Times = "stratified",
    generator: Generator | None = None,
    batch: int = 64,
    given: Flags | None = None,
    workers: Workers = ALONE,
    row_noise: Callable[[list[int], torch.device], Randomness] = RowGenerators,
    on_progress: Callable[[float], object] = lambda share: None,
    truncated_at: float | None = None,
) -> Likelihood:
    """Estimate the negative log-likelihood of the free positions of `x_0`, or its bound.

    Args:
        samples: Times per sequence.
        generator: The seed of times and noise is drawn from it; PyTorch's global generator if None.
        batch: Rows per network call; no figure depends on it.
        given: Flags of the positions that stay clean and do not count.
        workers: The share of the work that this process does, where several run.
        row_noise: Makes the noise of some rows from their seeds.
        on_progress: Receives the share of the work that is done, after every call.
        truncated_at: Leave out times before this one and all other terms, as papers do (0.001). It is not a bound: for
            a network that predicts the denoiser what is left out may be infinite.
    """
    process = model.process
    process.check_clean(x_0, given)
    _check(x_0, samples, batch)
    count = len(x_0)
    bound = Bound.of_model(model)
    if truncated_at is not None:
        bound = bound.truncated(truncated_at, process)
    samples = 0 if bound.exact else samples
    group = 1 if bound.exact else group_size(count, samples)
    seed = int(torch.randint(2**62, (), generator=generator, device="cpu" if generator is None else generator.device))
    free = torch.full((count,), x_0.shape[1]).double() if given is None else (~given).sum(-1).double().cpu()
    drawn = partial(group_levels, count, group=group, times=times, generator=starting_at(seed))
    parts = _parts(bound, process, free, samples, lambda size: drawn(size).flatten())
    total, done = sum(len(part.index) for part in parts), 0

    def score(part: _Part, rows: Tensor) -> PerRow:
        """Score some rows of a part; every row has a generator of its own."""
        nonlocal done
        chosen = part.index[rows].to(x_0.device)
        noise = row_noise([derive_seed(seed, part.term.name, part.some, row) for row in rows.tolist()], x_0.device)
        work = partial(_score, part, rows, x_0[chosen], None if given is None else given[chosen], noise)
        nats = workers.called(model, work)
        done += len(rows) * workers.count
        on_progress(min(1.0, done / total))
        return nats

    with evaluating(model):
        scored = [workers.share(model, len(part.index), batch, partial(score, part)) for part in parts]
    means = [nats.view(count, -1).mean(-1) for nats in scored]
    totals = torch.stack(means).sum(0)
    if bool(totals.isnan().any()):
        row = int(totals.isnan().nonzero()[0])
        raise ValueError(f"the bound of row {row} is not a number: the network's logits there hold NaN or +inf")
    how = "exact, next token" if bound.exact else f"{bound.words}, {times} times in groups of {group}"
    terms: dict[str, float] = {}
    for part, nats in zip(parts, means, strict=True):
        terms[part.name] = terms.get(part.name, 0.0) + float(nats.sum() / free.sum())
    return replace(likelihood_of(totals, free, group, how, bound.exact), time_samples=samples, parts=terms)


def likelihood_of(nats: PerRow, free: PerRow, group: int, estimator: str, exact: bool) -> Likelihood:
    """Sum up sequences whose nats and free tokens are known; rows of a group depend on one another."""
    mean = grouped_ratio(nats, torch.ones_like(nats), group)
    per_token = grouped_ratio(nats, free, group)
    return Likelihood(*mean, *per_token, len(nats), int(free.sum()), 0, estimator, exact, nats)


@dataclass(frozen=True)
class _Part:
    """A term of the bound, for the sequences of an index: at their times, or once."""

    name: str
    term: Objective | PriorTerm
    index: Int[Tensor, "rows"]
    t: PerRow | None = None
    weights: PerRow | None = None
    some: bool = False
    """True if some token is lost at these times, False if none is."""


def _parts(bound: Bound, process: Process, free: PerRow, samples: int, levels: Callable[[int], PerRow]) -> list[_Part]:
    """Return the parts of a bound: states with lost tokens and states without, the reconstruction, and the prior."""
    every, loss, eps = torch.arange(len(free)), bound.integral, bound.eps
    if bound.exact:
        return [_Part("next token", loss, every)]
    some = losing_times(levels(samples), eps, process)
    parts = [_Part("integral", loss, every.repeat_interleave(samples), *some, True)]
    if not process.all_or_nothing:  # else kept tokens are revealed, and cost nothing
        parts.append(_Part("integral", loss, every, *keeping_times(levels(1), eps, free, process), False))
    if eps and bound.complete:
        t = process.masses.time_at_lost(torch.full_like(free, eps))
        parts += [_Part("reconstruction", CrossEntropy(), every, t, torch.ones_like(t), lost) for lost in (True, False)]
    return parts if bound.prior is None else [*parts, _Part("prior", bound.prior, every)]


def _score(part: _Part, rows: Tensor, x_0: Tokens, given: Flags | None, noise: Randomness, model: Model) -> PerRow:
    """Return the nats of some rows of a part."""
    process, term = model.process, part.term
    factor = torch.ones(len(x_0), device=x_0.device, dtype=torch.float64)
    if isinstance(term, PriorTerm):
        if needs_no_network(process):
            return term.closed_form(x_0, process, given).sum(-1, dtype=torch.float64)
        noisy = term.state(process, x_0, noise, given)
    elif part.t is None or part.weights is None:
        noisy = process.corrupted(x_0, term.times(factor), noise, given)  # an exact likelihood has no times
    else:
        t, weights = part.t[rows].to(x_0.device), part.weights[rows].to(x_0.device)
        noisy, probability = corrupted_given(process, x_0, term.times(t), part.some, noise, given)
        factor = weights * probability
    losses = loss_at(model, term, x_0, noisy).per_token.sum(-1, dtype=torch.float64)
    return factor.to(losses.device) * losses


def _check(x_0: Tensor, samples: int, batch: int) -> None:
    if not len(x_0):
        raise ValueError("x_0 holds no sequence; there is nothing to score")
    for name, value in (("samples", samples), ("batch", batch)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    what = f"scoring {counted(len(x_0), 'row')} at {counted(samples, 'time')} each"
    check_memory(64 * len(x_0) * samples, what, "lower samples")  # bytes that are kept for every time of every row
