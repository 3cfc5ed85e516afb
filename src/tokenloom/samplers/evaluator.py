r"""Network evaluations, lazily: features for the rows that need them, logits for the positions that need them.

A kernel draws the branch of every position first and then asks for the prediction only where it is to be drawn from.
One such question is answered by a batch of single positions, in the representation the kernel names:

    model's prediction  ->  truncation's representation  ->  truncated  ->  kernel's representation,

in float32 or better.  A position whose own token reveals x_0 is a point mass, and there is nothing to truncate.

Rows that no question touches are never evaluated, and a network that ignores the time is not asked again about a row
that has not changed, nor about a row that is done (`stopping.py`).  `evaluations` counts what each row has really cost.
"""

from collections.abc import Callable, Iterator
from copy import copy
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tokenloom.drawing.truncation import Truncation, truncate_checked
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior, convert_at
from tokenloom.processes.base import Process
from tokenloom.samplers.local_prediction import LocalPrediction
from tokenloom.samplers.stopping import Stopping
from tokenloom.state import Noisy, Positions
from tokenloom.support.chunks import chunks, collected
from tokenloom.support.waiting import may_ask, surely_none
from tokenloom.types import Flags

Kind = TypeVar("Kind", bound=OverTokens)

HEAD_ELEMENTS = 1 << 24
"""Logits that the head computes at once: each time it reads all of its weight."""


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
        self._kept: tuple[Tensor, Tensor] | None = None
        self._known = torch.zeros(len(noisy.tokens), dtype=torch.bool, device=noisy.tokens.device)
        if previous is not None:
            self._features = previous._features
            if evaluator.model.timeless:
                self._known = previous._known & (self._read == previous._read).all(1)
            if evaluator.stopping is not None:  # what is said of a row that is done is never used
                self._known = self._known | evaluator.stopping.done

    def keeping(self, where: Flags) -> "LazyPrediction":
        """The same prediction with the network's logits at some positions computed and kept.

        Args:
            where: Flags of all positions that it will be asked about, more than once.

        Returns:
            A prediction to be asked about these positions, or some of them, and no others.
        """
        kept, at = copy(self), Positions.of(where)
        if len(at):
            logits = self._head(at, where)(slice(None))
            number = torch.arange(len(at), device=where.device).unsqueeze(1)
            kept._kept = logits, at.put(torch.zeros_like(self.noisy.tokens), number)
        return kept

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
        ask = self._head(at, where) if self._kept is None else self._recall(at)

        def parts() -> Iterator[tuple[slice, Tensor]]:
            for part in chunks(len(at), vocab_size, HEAD_ELEMENTS):
                raw = ask(part)
                for piece in chunks(len(raw), vocab_size, raw.numel() if self._direct(kind, truncated) else None):
                    rows = slice(part.start + piece.start, part.start + piece.stop)
                    yield rows, self._part(raw[piece], noisy.sequences(rows), kind, truncated).logits

        return LocalPrediction(at, noisy, kind(collected(len(at), parts())))

    def _head(self, at: Positions, where: Flags) -> Callable[[slice], Tensor]:
        """The network's logits at a part of these positions."""
        features, head = self._evaluated(where.any(1)), self.evaluator.model.head
        return lambda part: head(features[at.row[part], at.column[part]]).unsqueeze(1)

    def _recall(self, at: Positions) -> Callable[[slice], Tensor]:
        """The same, from those that were kept."""
        assert self._kept is not None
        logits, number = self._kept
        if len(at) == len(logits):
            return lambda part: logits[part]
        chosen = number[at.row, at.column]
        return lambda part: logits[chosen[part]]

    def _direct(self, kind: type[OverTokens], truncated: bool) -> bool:
        """Whether the network's logits are the answer already."""
        plain = not truncated or self.evaluator.truncation is None
        return plain and kind is LeaveOneOut and self.evaluator.model.predicts is LeaveOneOut

    def _part(self, logits: Tensor, noisy: Noisy, kind: type[Kind], truncated: bool) -> Kind:
        """The prediction at some positions from the network's logits."""
        model, logits = self.evaluator.model, self.evaluator.usable(logits)
        posterior = model.interpret(logits.to(torch.promote_types(logits.dtype, torch.float32)), noisy)
        if not truncated or self.evaluator.truncation is None:
            return convert_at(posterior, kind, noisy, model.process)
        return self._truncated(posterior, kind, noisy)

    def _truncated(self, posterior: Posterior, kind: type[Kind], noisy: Noisy) -> Kind:
        truncation, process = self.evaluator.truncation, self.evaluator.process
        assert truncation is not None
        revealed = process.evidence(noisy).isposinf()
        if not (isinstance(posterior, Denoiser) and kind is Denoiser) or surely_none(revealed):
            return self._cut(posterior, kind, noisy)
        if may_ask(revealed):
            hidden = ~revealed.squeeze(1)
            part = self._truncated(Denoiser(posterior.logits[hidden]), kind, noisy.sequences(hidden))
            return kind(posterior.logits.index_put((hidden,), part.logits))
        cut = self._cut(posterior, kind, noisy)
        return kind(torch.where(revealed.unsqueeze(-1), posterior.logits, cut.logits))

    def _cut(self, posterior: Posterior, kind: type[Kind], noisy: Noisy) -> Kind:
        """Converted, which looks at the logits, truncated, and converted to what the kernel needs."""
        truncation, process = self.evaluator.truncation, self.evaluator.process
        assert truncation is not None
        on = convert_at(posterior, truncation.on, noisy, process)
        cut = truncation.on(truncate_checked(on.logits, truncation))
        return cut if isinstance(cut, kind) else convert_at(cut, kind, noisy, process)

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
