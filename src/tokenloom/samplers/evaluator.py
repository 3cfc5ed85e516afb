r"""Network evaluations, lazily: features for the rows that need them, logits for the positions that need them.

A kernel draws the branch of every position first and then asks for the prediction only where it is to be drawn from.
One such question is answered by a batch of single positions, in the representation the kernel names:

    model's prediction  ->  truncation's representation  ->  truncated  ->  kernel's representation,

in float32 or better.  A position whose own token reveals x_0 is a point mass, and there is nothing to truncate.

Rows that no question touches are never evaluated, and a network that ignores the time is not asked again about a row
that has not changed, nor about a row that is done (`stopping.py`).  `evaluations` counts what each row has really cost.
"""

from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tokenloom.drawing.categorical import draw_where
from tokenloom.drawing.truncation import Truncation
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Denoiser, OverTokens, Posterior, convert_at
from tokenloom.processes.base import Process
from tokenloom.processes.mixtures import Mixture
from tokenloom.samplers.stopping import Stopping
from tokenloom.state import Noisy
from tokenloom.support.chunks import by_chunks
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

Kind = TypeVar("Kind", bound=OverTokens)


@dataclass(frozen=True)
class LocalPrediction:
    """Predictions at some positions of a batch, with the state of each as a sequence of length one."""

    where: Flags
    """Flags of these positions in the batch."""
    noisy: Noisy
    """Their state, [positions, 1]."""
    posterior: OverTokens
    """Their prediction, [positions, 1, vocab]."""

    def of_row(self, values: PerRow) -> Float[Tensor, "positions"]:
        """From one value per row, the one of each position's row.

        Args:
            values: One value per row of the batch.

        Returns:
            One value per position.
        """
        return values[self.where.nonzero()[:, 0]]

    def of_position(self, values: Float[Tensor, "batch length"]) -> Float[Tensor, "positions 1"]:
        """From one value per position of the batch, those of these positions.

        Args:
            values: One value per position of the batch.

        Returns:
            One value per position asked about.
        """
        return values[self.where].unsqueeze(1)

    def put(self, tokens: Tokens, drawn: Int[Tensor, "positions 1"]) -> Tokens:
        """The batch's tokens with those of these positions replaced.

        Args:
            tokens: The tokens of the batch.
            drawn: The new tokens.

        Returns:
            New tokens of the batch.
        """
        return tokens.masked_scatter(self.where, drawn)

    def draw(self, tokens: Tokens, u: PerPosition) -> Tokens:
        """The batch's tokens with those of these positions drawn from the prediction.

        Args:
            tokens: The tokens of the batch.
            u: Uniform numbers for every position of the batch.

        Returns:
            New tokens of the batch.
        """
        logits, everywhere = self.posterior.logits, torch.ones_like(self.noisy.tokens, dtype=torch.bool)
        return self.put(tokens, draw_where(logits, everywhere, self.of_position(u)).unsqueeze(1))

    def draw_from(self, law: Mixture, tokens: Tokens, branch: PerPosition, token: PerPosition) -> Tokens:
        """The batch's tokens with those of these positions drawn from a law over them.

        Args:
            law: A law over these positions, such as the bridge at `noisy`.
            tokens: The tokens of the batch.
            branch: Uniform numbers that choose the branch, for every position of the batch.
            token: Uniform numbers that choose the token, likewise.

        Returns:
            New tokens of the batch.
        """
        return self.put(tokens, law.invert(self.of_position(branch), self.of_position(token)))


class Evaluator:
    """A model with its truncation, and the count of its evaluations.

    Args:
        model: The model to ask.
        truncation: What is kept of every prediction; None keeps all.
        batch: How many rows, each of which counts its evaluations.
        stopping: Which rows are done already, where a run stops early.
    """

    def __init__(
        self, model: Model, truncation: Truncation | None, batch: int, stopping: Stopping | None = None
    ) -> None:
        self.model, self.truncation, self.stopping = model, truncation, stopping
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
        """The prediction at a state, the last one if it was there.

        Args:
            noisy: The state that a step started from.

        Returns:
            A prediction; one that was computed is not computed again.
        """
        if self.last is not None and self.last.noisy is noisy:
            return self.last
        return LazyPrediction(self, noisy, None if self.stopping is None else self.last)

    def __call__(self, noisy: Noisy) -> "LazyPrediction":
        """The prediction at a state; nothing is computed yet.

        Args:
            noisy: The state x_t.

        Returns:
            A prediction that evaluates the network once it is asked.
        """
        self.last = LazyPrediction(self, noisy, self.last if self.model.timeless or self.stopping else None)
        return self.last


class LazyPrediction:
    """What the model says of one state, computed where and when it is asked.

    Args:
        evaluator: The model, and the count of its evaluations.
        noisy: The state to predict at.
        previous: The prediction before, whose rows are kept where a model that ignores the time reads the same again.
    """

    def __init__(self, evaluator: Evaluator, noisy: Noisy, previous: "LazyPrediction | None") -> None:
        self.evaluator, self.noisy = evaluator, noisy
        self._read = _without_time(evaluator.model, noisy)
        self._features: Tensor | None = None
        self._known = torch.zeros(len(noisy.tokens), dtype=torch.bool, device=noisy.tokens.device)
        if previous is not None:
            self._features = previous._features
            if evaluator.model.timeless:
                self._known = previous._known & (self._read == previous._read).all(1)
            if evaluator.stopping is not None:  # what is said of a row that is done is never used
                self._known = self._known | evaluator.stopping.done

    def at(self, where: Flags, kind: type[Kind], truncated: bool = True) -> LocalPrediction:
        """The prediction at the flagged positions.

        Args:
            where: Flags of the positions.
            kind: `LeaveOneOut` or `Denoiser`; the prediction is converted to it.
            truncated: False leaves the truncation out.

        Returns:
            The prediction at these positions alone.
        """
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
        """The prediction at every position.

        Args:
            kind: `LeaveOneOut` or `Denoiser`; the prediction is converted to it.
            truncated: False leaves the truncation out.

        Returns:
            Logits of shape [batch, length, vocab], as `kind`.
        """
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
            self._offer(rows)
        assert self._features is not None
        return self._features

    def _offer(self, rows: Int[Tensor, "rows"]) -> None:
        """Offer the most probable tokens of rows that were evaluated just now."""
        if self.evaluator.stopping is not None:
            where = torch.zeros_like(self.noisy.tokens, dtype=torch.bool).index_fill(0, rows, True)
            best = self.at(where, Denoiser).posterior.logits.argmax(-1)
            self.evaluator.stopping.offer(best.view(len(rows), -1), rows)


def _without_time(model: Model, noisy: Noisy) -> Tensor:
    """What a network that ignores the time reads of each row: its tokens, and U where it reads U."""
    if not model.timeless:
        return noisy.tokens
    read = model.process.network_input(noisy)
    return read.tokens if read.absorbing is None else torch.cat([read.tokens, read.absorbing], 1)
