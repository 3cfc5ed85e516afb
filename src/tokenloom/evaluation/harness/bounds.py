r"""log p(continuation | context), exactly or from below, with noise that the choices of a question share.

    causal model         log p itself, from one evaluation
    lost tokens: masks   the bound over the number k of lost tokens among n free positions,
                             E[ n/k sum_{l in S} -log p(x^l | x outside S) ],      k uniform on 1..n,  |S| = k
    any other process    `tl.nelbo` with the context given, hence clean at every time

The second is the bound of masked diffusion, the integral of (1/m) E[sum over lost l of -log p(x^l | x_t)] over the lost
share m = 1 - alpha_t, with the sum over k taken first.  Draw one number u^l per free position: S holds the k smallest,
and m is the largest of those, for m ~ Beta(k, n - k + 1) is independent of S, and C(n, k) B(k, n - k + 1) = 1/k.
A single token has no sampling noise, for then k = n = 1.  The sum reaches alpha = 0 itself, so there is no prior term.

Every random number depends on the seed, the question, the number of the sample and the position alone.  The choices of
a question lose the same positions at the same levels, so their difference has far less noise than either of them.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.randomness import RowGenerators, derive_seed, seeded
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.objectives.cross_entropy import CrossEntropy
from tokenloom.objectives.head_loss import loss_at
from tokenloom.objectives.likelihood import nelbo
from tokenloom.objectives.nelbo import Bound
from tokenloom.posteriors import Score
from tokenloom.samplers.predictors.greedy_tail import GreedyTail
from tokenloom.samplers.sampler import Sampler
from tokenloom.samplers.selection import mode
from tokenloom.state import Noisy
from tokenloom.types import Flags, Tokens

STRATA = 8
"""Times per row of `tl.nelbo`; its rows are repetitions of one sequence, and their spread is the error."""


@dataclass(frozen=True)
class Row:
    """Tokens of which the first `context` are given; rows of the same `question` share their noise."""

    tokens: tuple[int, ...]
    context: int
    question: str

    @property
    def free(self) -> int:
        """Number of tokens to score."""
        return len(self.tokens) - self.context

    @property
    def x_0(self) -> Tokens:
        """The tokens as a batch of one."""
        return torch.tensor([self.tokens], dtype=torch.int64)

    @property
    def given(self) -> Flags:
        """Flags of the context, as a batch of one."""
        return torch.arange(len(self.tokens))[None] < self.context


@dataclass(frozen=True)
class Estimate:
    """A bound of -log p(continuation | context) in nats, and the standard error that its noise leaves."""

    nats: float
    standard_error: float


class WideRows(RowGenerators):
    """One generator per row that draws for `width` positions: the numbers of one do not depend on how many follow."""

    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu", width: int = 0) -> None:
        super().__init__(seeds, device)
        self.width = width

    def uniform(self, shape: tuple[int, ...]) -> Float[Tensor, "*shape"]:
        rows, length, *rest = shape
        return super().uniform((rows, max(length, self.width), *rest))[:, :length]


@dataclass(frozen=True)
class Scorer:
    """Bounds of a model; `batch` rows per network call, which changes no figure."""

    model: Model
    samples: int = 128
    batch: int = 64
    seed: int = 0

    @property
    def exact(self) -> bool:
        """True if figures are log p itself."""
        return Bound.of_model(self.model).exact

    @property
    def any_order(self) -> bool:
        """True if the bound is summed over the number of lost tokens."""
        return self.model.process.masking and not self.model.process.lifted and self.model.predicts is not Score

    @property
    def estimator(self) -> str:
        """The kind of the figures, in words."""
        if self.exact:
            return "exact, next token"
        what = "lost tokens in any order" if self.any_order else type(Bound.of_model(self.model).integral).__name__
        return f"lower bound, {what}, {self.samples} samples per request, noise shared between choices"

    def scores(self, rows: Sequence[Row]) -> Iterator[Estimate]:
        """Return a bound for every row, computed as the iterator advances; exact ones come all at once."""
        if self.exact:
            return (Estimate(nats, 0.0) for nats in self.exact_nats(rows).tolist())
        if self.any_order:
            return map(self._any_order, rows)
        by_length = sorted(rows, key=lambda row: len(row.tokens))
        widths = {row.question: len(row.tokens) for row in by_length}  # of a question's longest choice
        return (self._nelbo(row, widths[row.question]) for row in rows)

    def exact_nats(self, rows: Sequence[Row]) -> Float[Tensor, "rows"]:
        """Return -log p(continuation | context) of every row under a causal model; 0 for a row without tokens."""
        nats = torch.zeros(len(rows), dtype=torch.float64)
        for length in {len(row.tokens) for row in rows} - {0}:  # rows of one length need no padding
            same = [index for index, row in enumerate(rows) if len(row.tokens) == length]
            x_0, given = (torch.cat([getattr(rows[index], part) for index in same]) for part in ("x_0", "given"))
            nats[same] = nelbo(self.model, x_0, batch=self.batch, given=given).per_sequence
        return nats

    def _nelbo(self, row: Row, width: int) -> Estimate:
        repeats = max(1, self.samples // STRATA)
        x_0, given = (part.expand(repeats, -1) for part in (row.x_0, row.given))
        generator = seeded(self.seed, row.question)
        noise, samples = partial(WideRows, width=width), self.samples // repeats
        found = nelbo(self.model, x_0, samples, "stratified", generator, self.batch, given, row_noise=noise)
        return _estimate(found.per_sequence)

    @torch.no_grad()
    def _any_order(self, row: Row) -> Estimate:
        samples = 1 if row.free == 1 and self.model.timeless else self.samples
        seeds = [derive_seed(self.seed, row.question, sample) for sample in range(samples)]
        u = RowGenerators(seeds).uniform((samples, row.free))
        offset = torch.rand((), generator=seeded(self.seed, row.question))
        k = ((torch.arange(samples) + offset.double()) / samples * row.free).long()[:, None].clamp(max=row.free - 1) + 1
        level = u.sort(-1).values.gather(-1, k - 1)
        lost = torch.nn.functional.pad(u <= level, (row.context, 0))
        weights = row.free / k.double()
        parts = (torch.split(part, self.batch) for part in (lost, level.squeeze(-1), weights))
        with evaluating(self.model):
            losses = [self._losses(row, *part) for part in zip(*parts, strict=True)]
        if samples == 1 and row.free == 1:
            return Estimate(float(losses[0]), 0.0)
        return _estimate(torch.cat(losses))

    def _losses(self, row: Row, lost: Flags, level: Tensor, weights: Tensor) -> Float[Tensor, "rows"]:
        process, device = self.model.process, self.model.device or torch.device("cpu")
        x_0, given = (part.expand(len(lost), -1) for part in (row.x_0, row.given))
        process.check_clean(x_0, given)
        noisy = self._masked(x_0, given, lost, 1 - level).to(device)
        loss = loss_at(self.model, CrossEntropy(), x_0.to(device), noisy, weights.expand_as(x_0).to(device))
        return loss.per_token.sum(-1, dtype=torch.float64).cpu() * weights.squeeze(-1)

    def _masked(self, x_0: Tokens, given: Flags, lost: Flags, alpha: Tensor) -> Noisy:
        """Return the state in which `lost` positions are masked, at the time of this alpha."""
        process = self.model.process
        assert process.mask is not None  # the bound in any order is for masks
        t = process.time_at(alpha).clamp(0, 1)
        return Noisy(x_0.masked_fill(lost, process.mask), t, process.alpha(t), None, given)

    @torch.no_grad()
    def is_greedy(self, row: Row) -> bool:
        """Return whether greedy decoding gives the continuation, as many positions as it has being open.

        A causal model decodes from left to right, a masked one the surest position first; any other in a single step,
        all positions at once.  Decoding ends at the first token that differs, most often after one evaluation.
        """
        device = self.model.device or torch.device("cpu")
        x_0, given = row.x_0.to(device), row.given.to(device)
        with evaluating(self.model):
            if self.model.causal:
                clean = self.model.process.corrupt(x_0, torch.zeros(1, device=device, dtype=torch.float64))
                return bool((mode(self._logits(clean, ~given)[None]) == x_0[:, row.context :]).all())
            if self.any_order:
                return self._unmasks(x_0, given, row.free)
        sampler = Sampler(GreedyTail(), steps=1, show_given="clean")
        generator = seeded(self.seed, row.question, device=device)
        drawn = sampler.run(self.model, 1, length=len(row.tokens), given=(x_0, given), generator=generator)
        return bool((drawn.tokens == x_0).all())

    def _unmasks(self, x_0: Tokens, given: Flags, free: int) -> bool:
        hidden = ~given
        for left in range(free, 0, -1):
            alpha = torch.full((1,), 1 - left / free, device=x_0.device, dtype=torch.float64)
            logits = self._logits(self._masked(x_0, given, hidden, alpha), hidden)
            surest = logits.log_softmax(-1).amax(-1).argmax()
            position = hidden[0].nonzero()[surest]
            if mode(logits[None])[0, surest] != x_0[0, position]:
                return False
            hidden[0, position] = False
        return True

    def _logits(self, noisy: Noisy, where: Flags) -> Float[Tensor, "rows vocab"]:
        """Return the logits at the flagged positions of a batch of one."""
        logits = self.model.head(self.model.body(noisy)[where])
        return self.model.process.restrict(logits[None])[0]


def _estimate(values: Float[Tensor, "samples"]) -> Estimate:
    """Return the mean, and its error from neighbours: stratified, they differ by noise alone; NaN for one sample."""
    return Estimate(float(values.mean()), math.sqrt(float(values.diff().square().mean()) / 2 / len(values)))
