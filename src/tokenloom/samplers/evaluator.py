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

from tokenloom.drawing.categorical import draw_each
from tokenloom.drawing.truncation import Truncation
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Denoiser, OverTokens, Posterior, convert_at
from tokenloom.processes.base import Process
from tokenloom.processes.mixtures import Mixture
from tokenloom.samplers.stopping import Stopping
from tokenloom.state import Noisy, Positions
from tokenloom.support.chunks import by_chunks
from tokenloom.support.waiting import may_ask, surely_none
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

Kind = TypeVar("Kind", bound=OverTokens)


@dataclass(frozen=True)
class LocalPrediction:
    """Predictions at some positions of a batch, with the state of each as a sequence of length one."""

    where: Positions
    """These positions in the batch."""
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
        return values[self.where.row]

    def of_position(self, values: Float[Tensor, "batch length"]) -> Float[Tensor, "positions 1"]:
        """From one value per position of the batch, those of these positions.

        Args:
            values: One value per position of the batch.

        Returns:
            One value per position asked about.
        """
        return self.where.take(values)

    def put(self, tokens: Tokens, drawn: Int[Tensor, "positions 1"]) -> Tokens:
        """The batch's tokens with those of these positions replaced.

        Args:
            tokens: The tokens of the batch.
            drawn: The new tokens.

        Returns:
            New tokens of the batch.
        """
        return self.where.put(tokens, drawn)

    def draw(self, tokens: Tokens, u: PerPosition) -> Tokens:
        """The batch's tokens with those of these positions drawn from the prediction.

        Args:
            tokens: The tokens of the batch.
            u: Uniform numbers for every position of the batch.

        Returns:
            New tokens of the batch.
        """
        return self.put(tokens, draw_each(self.posterior.logits, self.of_position(u)))

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
        self._broken: Tensor | None = None

    @property
    def process(self) -> Process:
        """The process that is sampled."""
        return self.model.process

    @property
    def step_kind(self) -> type[OverTokens]:
        """The representation that a reverse step of this model is made from."""
        return self.process.step_representation(self.model.predicts)

    def usable(self, logits: Float[Tensor, "positions 1 vocab"]) -> Float[Tensor, "positions 1 vocab"]:
        """Logits from which something can be drawn; that there were others is remembered on the device for `check`.

        Args:
            logits: What the network put out.

        Returns:
            The same, with zeros in the place of rows that hold NaN, +inf or nothing but -inf.
        """
        if may_ask(logits):  # they are looked at where they are used
            return logits
        broken = ~logits.amax(-1, keepdim=True).isfinite()
        self._broken = broken.any() if self._broken is None else self._broken | broken.any()
        return logits.masked_fill(broken, 0)

    def check(self) -> None:
        """Raise if logits in this run were what nothing can be drawn from; the host waits for the answer.

        Raises:
            ValueError: If a position had NaN, +inf or nothing but -inf.
        """
        if self._broken is not None and bool(self._broken):
            raise ValueError(
                "the network's logits held NaN, +inf or only -inf in this run, so its samples mean nothing; run it on "
                "the CPU to see where"
            )

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
        at, vocab_size = Positions.of(where), self.evaluator.process.vocab_size
        noisy = self.noisy.positions(at)
        if not len(at):
            return LocalPrediction(at, noisy, kind(torch.zeros(0, 1, vocab_size, device=where.device)))
        features = self._evaluated(where.any(1))

        def logits(part: slice) -> Tensor:
            return self._part(features[at.row[part], at.column[part]], noisy.sequences(part), kind, truncated).logits

        return LocalPrediction(at, noisy, kind(by_chunks(len(at), vocab_size, logits)))

    def _part(self, features: Tensor, noisy: Noisy, kind: type[Kind], truncated: bool) -> Kind:
        """The prediction at some positions from their features."""
        model = self.evaluator.model
        logits = self.evaluator.usable(model.head(features).unsqueeze(1))
        posterior = model.interpret(logits.to(torch.promote_types(logits.dtype, torch.float32)), noisy)
        if not truncated or self.evaluator.truncation is None:
            return convert_at(posterior, kind, noisy, model.process)
        return self._truncated(posterior, kind, noisy)

    def _truncated(self, posterior: Posterior, kind: type[Kind], noisy: Noisy) -> Kind:
        truncation, process = self.evaluator.truncation, self.evaluator.process
        assert truncation is not None
        revealed = process.evidence(noisy).isposinf()
        if not (isinstance(posterior, Denoiser) and kind is Denoiser) or surely_none(revealed):
            return convert_at(truncation(convert_at(posterior, truncation.on, noisy, process)), kind, noisy, process)
        if may_ask(revealed):
            hidden = ~revealed.squeeze(1)
            part = self._truncated(Denoiser(posterior.logits[hidden]), kind, noisy.sequences(hidden))
            return kind(posterior.logits.index_put((hidden,), part.logits))
        cut = convert_at(truncation(convert_at(posterior, truncation.on, noisy, process)), kind, noisy, process)
        return kind(torch.where(revealed.unsqueeze(-1), posterior.logits, cut.logits))

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
        rows = missing.nonzero().squeeze(1)
        if len(rows):
            self.evaluator.evaluations = self.evaluator.evaluations.to(missing.device) + missing
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
