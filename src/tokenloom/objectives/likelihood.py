r"""The likelihood of data under a model, in nats, with an error bar that means what it says.

    -log p(x_0) <= prior term + int_0^1 E[loss of x_t] dt,      one number X_i per sequence, from `samples` times each;

exact and without times for a causal network.  `time_integral.py` says how the times are drawn and the error follows.
It covers the draw of the sequences and of the noise, as an estimate of the mean over all data, few rows or many
(`grouped_ratio.py`).

The noise of a row comes from a generator of its own, so neither the batch nor the number of processes that share the
work changes a figure.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from tokenloom.drawing.randomness import Randomness, RowGenerators, derive_seed
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.objectives.bound import Bound
from tokenloom.objectives.grouped_ratio import grouped_ratio
from tokenloom.objectives.head_loss import loss_at
from tokenloom.objectives.prior_term import needs_no_network
from tokenloom.objectives.time_integral import Times, group_levels, group_size, levels_to_times
from tokenloom.support.memory import check_memory
from tokenloom.support.typed import checked
from tokenloom.support.words import counted
from tokenloom.types import Flags, PerRow, Tokens

Work = Callable[[Model], Tensor]
NUMBERS = 64
"""Bytes that are kept for every time of every row."""
RowNoise = Callable[[list[int], torch.device], Randomness]
"""What makes the noise of some rows from their seeds."""
PerTime = Float[Tensor, "times"]
"""One value for each time of each sequence, those of a sequence next to each other."""


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
    """How many sequences were scored."""
    tokens: int
    """Free tokens."""
    time_samples: int
    """Times per sequence; 0 where none are needed."""
    estimator: str
    """The terms of the bound and how its integral was estimated, in words."""
    exact: bool
    """Whether it is -log p itself and not a bound."""
    per_sequence: Float[Tensor, "sequences"]
    """Nats of every sequence: unbiased, each with its own noise."""

    @property
    def bits_per_token(self) -> float:
        """Nats per token in base 2."""
        return self.per_token / math.log(2)

    @property
    def perplexity(self) -> float:
        """exp(nats per token)."""
        return math.exp(self.per_token)

    def record(self) -> dict[str, float | int | str | bool]:
        """The figures, without those of single sequences, for a file."""
        names = ("nats", "standard_error", "per_token", "per_token_error", "sequences", "tokens", "time_samples")
        return {name: getattr(self, name) for name in (*names, "estimator", "exact", "bits_per_token", "perplexity")}

    def __str__(self) -> str:
        return f"{self.per_token:.4f} ± {self.per_token_error:.4f}"


@dataclass(frozen=True)
class Workers:
    """Which of how many processes this is, the sum of a tensor over all of them, and how a model in parts is called."""

    rank: int = 0
    count: int = 1
    add: Callable[[Tensor], Tensor] = torch.Tensor.clone
    call: Callable[[Work], Tensor] | None = None


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
    row_noise: RowNoise = RowGenerators,
    on_progress: Callable[[float], object] = lambda share: None,
) -> Likelihood:
    """The negative log-likelihood of the free positions of `x_0`, or its bound.

    Args:
        model: The model to score with.
        x_0: Clean tokens.
        samples: Times per sequence.
        times: How times are drawn: `stratified` or `antithetic`.
        generator: The seed of times and noise is drawn from it; PyTorch's global generator if None.
        batch: Rows per network call; no figure depends on it.
        given: Flags of the positions that stay clean and do not count.
        workers: Which share of the work this process does, where several run.
        row_noise: How the noise of a row is made from its seed.
        on_progress: Receives the share of the work that is done, after every call.

    Returns:
        The figures, in nats.

    Raises:
        ValueError: If the model has no bound, or an argument does not fit it.
    """
    _check(x_0, samples, times, batch)
    model.process.check_clean(x_0, given)
    bound, count = Bound.of_model(model), len(x_0)
    samples = 1 if bound.exact else samples
    group = 1 if bound.exact else group_size(count, samples)
    seed = int(torch.randint(2**62, (), generator=generator, device="cpu" if generator is None else generator.device))
    with evaluating(model):
        levels = group_levels(count, samples, group, times, torch.Generator().manual_seed(seed), torch.device("cpu"))
        t, weights = levels_to_times(levels.flatten(), model.process)
        advance = _share_of(count * samples + (0 if bound.prior is None else count), on_progress)
        rows = _Rows(model, x_0, given, batch, workers, row_noise, advance)
        totals = rows.integral(bound, t, 1 if bound.exact else weights, samples, seed)
        if bound.prior is not None:
            totals = totals + rows.prior(bound, seed)
    if bool(totals.isnan().any()):
        row = int(totals.isnan().nonzero()[0])
        raise ValueError(f"the bound of row {row} is not a number: the network's logits there hold NaN or +inf")
    free = torch.full_like(totals, x_0.shape[1]) if given is None else (~given).sum(-1, dtype=torch.float64).cpu()
    how = f"{bound.words}, {times} times in groups of {group}"
    found = likelihood_of(totals, free, group, "exact, next token" if bound.exact else how, bound.exact)
    return replace(found, time_samples=0 if bound.exact else samples)


def _share_of(total: int, on_progress: Callable[[float], object]) -> Callable[[int], None]:
    """Counts work that is done, and says which share of all of it that is."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        on_progress(min(1.0, done / total))

    return advance


def likelihood_of(nats: PerRow, free: PerRow, group: int, estimator: str, exact: bool) -> Likelihood:
    """The figures of sequences whose nats and free tokens are known; rows of a group depend on one another."""
    mean = grouped_ratio(nats, torch.ones_like(nats), group)
    per_token = grouped_ratio(nats, free, group)
    return Likelihood(*mean, *per_token, len(nats), int(free.sum()), 0, estimator, exact, nats)


@dataclass(frozen=True)
class _Rows:
    """Sequences to score, some at a time, shared between processes."""

    model: Model
    x_0: Tokens
    given: Flags | None
    batch: int
    workers: Workers
    row_noise: RowNoise
    advance: Callable[[int], None]

    def integral(
        self, bound: Bound, t: PerTime, weights: PerTime | int, samples: int, seed: int
    ) -> Float[Tensor, "sequences"]:
        """The integral over the free positions of every sequence, from its `samples` times."""
        objective = bound.integral

        def losses(model: Model, part: Rows) -> Tensor:
            times = objective.times(t[part.number].to(part.x_0.device))
            noisy = model.process.corrupted(part.x_0, times, part.generator, part.given)
            return loss_at(model, objective, part.x_0, noisy).per_token

        index = torch.arange(len(self.x_0)).repeat_interleave(samples)
        return (self._over(index, objective.name, losses, seed) * weights).view(-1, samples).mean(-1)

    def prior(self, bound: Bound, seed: int) -> Float[Tensor, "sequences"]:
        """What is paid at t = 1."""
        term = bound.prior
        assert term is not None

        def losses(model: Model, part: Rows) -> Tensor:
            if needs_no_network(model.process):
                return term.closed_form(part.x_0, model.process, part.given)
            noisy = term.state(model.process, part.x_0, part.generator, part.given)
            return loss_at(model, term, part.x_0, noisy).per_token

        return self._over(torch.arange(len(self.x_0)), term.name, losses, seed)

    def _over(self, index: Tensor, name: str, losses: "Losses", seed: int) -> Float[Tensor, "rows"]:
        """The sum of the losses of some rows, by their sequence, `batch` at a time and shared between processes."""
        found = torch.zeros(len(index), dtype=torch.float64)
        chunks = torch.split(torch.arange(len(index)), self.batch)
        for first in range(0, len(chunks), self.workers.count):
            number = first + self.workers.rank
            part = chunks[number % len(chunks)]  # without a chunk of its own it runs too: a model in parts needs all
            rows = self._rows(part, index[part], [derive_seed(seed, name, row) for row in part.tolist()])
            nats = self._called(partial(_summed, losses, rows))
            if number < len(chunks):
                found[part] = nats
            self.advance(len(part) * self.workers.count)
        device = self.model.device or torch.device("cpu")
        return self.workers.add(found.to(device)).cpu()

    def _rows(self, number: Tensor, index: Tensor, seeds: list[int]) -> "Rows":
        rows = index.to(self.x_0.device)
        given = None if self.given is None else self.given[rows]
        return Rows(number, self.x_0[rows], given, self.row_noise(seeds, self.x_0.device))

    def _called(self, work: Work) -> PerRow:
        """`work` of the model, which may be in parts; it has the process of this run either way."""
        if self.workers.call is None:
            return work(self.model).cpu()
        own = self.model.process
        return self.workers.call(lambda model: work(model if model.process is own else model.with_process(own))).cpu()


def _summed(losses: "Losses", rows: "Rows", model: Model) -> Tensor:
    """The nats of each row."""
    return losses(model, rows).sum(-1, dtype=torch.float64)


@dataclass(frozen=True)
class Rows:
    """Some rows to score at once."""

    number: Tensor
    x_0: Tokens
    given: Flags | None
    generator: Randomness


Losses = Callable[[Model, Rows], Tensor]


def _check(x_0: Tensor, samples: int, times: str, batch: int) -> None:
    if not len(x_0):
        raise ValueError("x_0 holds no sequence; there is nothing to score")
    for name, value in (("samples", samples), ("batch", batch)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    what = f"scoring {counted(len(x_0), 'row')} at {counted(samples, 'time')} each"
    check_memory(NUMBERS * len(x_0) * samples, what, "lower samples")
    if times not in ("antithetic", "stratified"):
        raise ValueError(f"times must be antithetic or stratified, got {times!r}")
