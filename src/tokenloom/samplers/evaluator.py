r"""Network evaluations, lazily: features for the rows that need them, logits for the positions that need them.

A kernel draws the branch of every position first and then asks for the prediction only where it is to be drawn from.
One such question is answered by a batch of single positions, in the representation the kernel names:

    model's prediction  ->  truncation's representation  ->  truncated  ->  kernel's representation,

in float32 or better.  A position whose own token reveals x_0 is a point mass, and there is nothing to truncate.

Rows that no question touches are never evaluated, and a network that ignores the time is not asked again about a row
that has not changed.  `evaluations` counts what each row has really cost.
"""

from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tokenloom.drawing.categorical import draw_where
from tokenloom.drawing.truncation import Truncation
from tokenloom.models.model import Model
from tokenloom.posteriors import Denoiser, OverTokens, Posterior, convert_at
from tokenloom.processes.base import Process
from tokenloom.processes.mixtures import Mixture
from tokenloom.state import Noisy
from tokenloom.support.chunks import by_chunks
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

Kind = TypeVar("Kind", bound=OverTokens)


@dataclass(frozen=True)
class LocalPrediction:
    """Predictions at some positions of a batch, with the state of each as a sequence of length one."""

    where: Flags
    noisy: Noisy
    posterior: OverTokens

    def of_row(self, values: PerRow) -> Float[Tensor, "positions"]:
        """From one value per row, the one of each position's row."""
        return values[self.where.nonzero()[:, 0]]

    def of_position(self, values: Float[Tensor, "batch length"]) -> Float[Tensor, "positions 1"]:
        """From one value per position of the batch, those of these positions."""
        return values[self.where].unsqueeze(1)

    def put(self, tokens: Tokens, drawn: Int[Tensor, "positions 1"]) -> Tokens:
        """The batch's tokens with those of these positions replaced."""
        return tokens.masked_scatter(self.where, drawn)

    def draw(self, tokens: Tokens, u: PerPosition) -> Tokens:
        """The batch's tokens with those of these positions drawn from the prediction."""
        logits, everywhere = self.posterior.logits, torch.ones_like(self.noisy.tokens, dtype=torch.bool)
        return self.put(tokens, draw_where(logits, everywhere, self.of_position(u)).unsqueeze(1))

    def draw_from(self, law: Mixture, tokens: Tokens, branch: PerPosition, token: PerPosition) -> Tokens:
        """The batch's tokens with those of these positions drawn from a law over them."""
        return self.put(tokens, law.invert(self.of_position(branch), self.of_position(token)))


class Evaluator:
    """A model with its truncation, and the count of its evaluations."""

    def __init__(self, model: Model, truncation: Truncation | None, batch: int) -> None:
        self.model, self.truncation = model, truncation
        self.evaluations = torch.zeros(batch, dtype=torch.int64)
        self.last: LazyPrediction | None = None

    @property
    def process(self) -> Process:
        """The process that is sampled."""
        return self.model.process

    @property
    def step_kind(self) -> type[OverTokens]:
        """The representation that a reverse step of this model is made from."""
        return self.process.step_representation(self.model.predicts)

    def last_at(self, noisy: Noisy) -> "LazyPrediction":
        """The prediction at a state, the last one if it was there."""
        return self.last if self.last is not None and self.last.noisy is noisy else LazyPrediction(self, noisy, None)

    def __call__(self, noisy: Noisy) -> "LazyPrediction":
        """The prediction at a state; nothing is computed yet."""
        self.last = LazyPrediction(self, noisy, self.last if self.model.timeless else None)
        return self.last


class LazyPrediction:
    """What the model says of one state, computed where and when it is asked."""

    def __init__(self, evaluator: Evaluator, noisy: Noisy, previous: "LazyPrediction | None") -> None:
        self.evaluator, self.noisy = evaluator, noisy
        self._read = _without_time(evaluator.model, noisy)
        self._features: Tensor | None = None
        self._known = torch.zeros(len(noisy.tokens), dtype=torch.bool, device=noisy.tokens.device)
        if previous is not None:
            self._features = previous._features
            self._known = previous._known & (self._read == previous._read).all(1)

    def at(self, where: Flags, kind: type[Kind], truncated: bool = True) -> LocalPrediction:
        """The prediction at the flagged positions."""
        model, noisy = self.evaluator.model, self.noisy.positions(where)
        if not len(noisy.tokens):
            return LocalPrediction(where, noisy, kind(torch.zeros(0, 1, model.process.vocab_size, device=where.device)))
        features, (row, column) = self._evaluated(where.any(1)), where.nonzero(as_tuple=True)

        def logits(part: slice) -> Tensor:
            return self._part(features[row[part], column[part]], noisy.sequences(part), kind, truncated).logits

        return LocalPrediction(where, noisy, kind(by_chunks(len(row), model.process.vocab_size, logits)))

    def _part(self, features: Tensor, noisy: Noisy, kind: type[Kind], truncated: bool) -> Kind:
        """The prediction at some positions from their features."""
        model = self.evaluator.model
        logits = model.head(features).unsqueeze(1)
        posterior = model.interpret(logits.to(torch.promote_types(logits.dtype, torch.float32)), noisy)
        if not truncated or self.evaluator.truncation is None:
            return convert_at(posterior, kind, noisy, model.process)
        return self._truncated(posterior, kind, noisy)

    def _truncated(self, posterior: Posterior, kind: type[Kind], noisy: Noisy) -> Kind:
        truncation, process = self.evaluator.truncation, self.evaluator.process
        assert truncation is not None
        if isinstance(posterior, Denoiser) and kind is Denoiser:
            hidden = process.evidence(noisy).isfinite().squeeze(1)
            if not bool(hidden.all()):
                part = self._truncated(Denoiser(posterior.logits[hidden]), kind, noisy.sequences(hidden))
                return kind(posterior.logits.index_put((hidden,), part.logits))
        return convert_at(truncation(convert_at(posterior, truncation.on, noisy, process)), kind, noisy, process)

    def everywhere(self, kind: type[Kind], truncated: bool = True) -> Kind:
        """The prediction at every position, [batch, length, vocab]."""
        local = self.at(torch.ones_like(self.noisy.tokens, dtype=torch.bool), kind, truncated)
        return kind(local.posterior.logits.view(*self.noisy.tokens.shape, -1))

    def _evaluated(self, needed: Bool[Tensor, "batch"]) -> Tensor:
        """Features with the needed rows filled in."""
        missing = needed & ~self._known
        if bool(missing.any()):
            self.evaluator.evaluations += missing.cpu()
            rows = missing.nonzero().squeeze(1)
            whole = len(rows) == len(missing)
            fresh = self.evaluator.model.body(self.noisy if whole else self.noisy.sequences(rows))
            if whole:
                self._features = fresh
            else:
                kept = self._features
                blank = fresh.new_zeros((len(missing), *fresh.shape[1:])) if kept is None else kept
                self._features = blank.index_copy(0, rows, fresh)
            self._known = self._known | missing
        assert self._features is not None
        return self._features


def _without_time(model: Model, noisy: Noisy) -> Tensor:
    """What a network that ignores the time reads of each row: its tokens, and U where it reads U."""
    if not model.timeless:
        return noisy.tokens
    read = model.process.network_input(noisy)
    return read.tokens if read.absorbing is None else torch.cat([read.tokens, read.absorbing], 1)
