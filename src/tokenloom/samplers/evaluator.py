r"""Network evaluations, lazily: features for the rows that need them, logits for the positions that need them.

A kernel draws the branch of every position first and then asks for the prediction only where it is to be drawn from.
One such question is answered by a batch of single positions, in the representation the kernel names:

    model.interpret  ->  truncation's representation  ->  truncated  ->  kernel's representation,

in float32 or better.  A position whose own token reveals x_0 is a point mass, and there is nothing to truncate.

Rows that no question touches are never evaluated, and a network that ignores the time is not asked again about a row
that has not changed, nor about a row that is done (`Stopping`).  `evaluations` counts what each row has really cost.

Whether the host may ask for values on the way is decided once per run (`asks`).  On a CPU the answer is there.  On an
accelerator the host would wait until all that was queued is done, so branches that only save work are not taken there,
and what must be known of the network's output is gathered on the device and asked for once, at the end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tokenloom.couplings.steps import Mixture
from tokenloom.drawing.categorical import draw_each
from tokenloom.drawing.chunks import chunks, collected
from tokenloom.drawing.truncation import Truncation, truncate_checked
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior, convert_at
from tokenloom.samplers.stopping import Stopping
from tokenloom.state import Noisy, Positions
from tokenloom.support.checks import check_finite_maximum, check_mask
from tokenloom.support.memory import check_memory
from tokenloom.support.typed import check_type, checked
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

Kind = TypeVar("Kind", bound=OverTokens)
HEAD_ELEMENTS = 1 << 24
"""Logits that the head computes at once: each time it reads all of its weight."""


@dataclass(frozen=True)
class LocalPrediction:
    """Predictions at some positions of a batch, with the state of each as a sequence of length one."""

    where: Positions
    """These positions in the batch; its `take` and `put` read and replace values there."""
    noisy: Noisy
    """Their state, [positions, 1]."""
    posterior: OverTokens
    """Their prediction, [positions, 1, vocab]."""

    def among(self, flags: Flags) -> "LocalPrediction":
        """Keep those of these positions that are flagged; flags elsewhere in the batch are not read."""
        chosen = self._flagged(flags)
        posterior = replace(self.posterior, logits=self.posterior.logits[chosen])
        return LocalPrediction(self.where.at(chosen), self.noisy.sequences(chosen), posterior)

    def _flagged(self, flags: Flags) -> Int[Tensor, "chosen"]:
        """Return which of these positions are flagged."""
        check_type("flags", flags, Flags)
        if tuple(flags.shape) != self.where.shape:
            raise ValueError(f"flags must have the batch's shape {list(self.where.shape)}, got {list(flags.shape)}")
        return self.where.take(flags).squeeze(1).nonzero().squeeze(1)

    def of_row(self, values: PerRow) -> Float[Tensor, "positions"]:
        """Take the value of each position's row."""
        return values[self.where.row]

    def draw(self, tokens: Tokens, u: PerPosition, among: Flags | None = None) -> Tokens:
        """Replace the tokens of these positions, or of the flagged ones among them, by draws from the prediction.

        Logits of flagged positions are copied a few at a time, unlike by `among`.
        """
        chosen = None if among is None else self._flagged(among)
        where = self.where if chosen is None else self.where.at(chosen)
        drawn = draw_each(self.posterior.logits.squeeze(1), where.take(u).squeeze(1), chosen)
        return where.put(tokens, drawn.unsqueeze(1))

    def draw_from(self, law: Mixture, tokens: Tokens, branch: PerPosition, token: PerPosition) -> Tokens:
        """Replace the tokens of these positions by draws from a law over them."""
        return self.where.put(tokens, law.invert(self.where.take(branch), self.where.take(token)))


class Evaluator:
    """A model with the truncation of every prediction, and the evaluations of each of `batch` rows.

    Args:
        model: The model to evaluate.
        truncation: The truncation; None keeps all.
        batch: The number of rows.
        stopping: The rows that are done already, where a run stops early.
        checks: True if states and flags are checked; a run, which makes them itself, needs no check.
    """

    @checked
    def __init__(
        self,
        model: Model,
        truncation: Truncation | None,
        batch: int,
        stopping: Stopping | None = None,
        checks: bool = True,
    ) -> None:
        check_memory(8 * batch, f"a batch of {batch} rows", "evaluate fewer at a time")
        if batch < 0:
            raise ValueError(f"batch must be at least 0, got {batch}")
        self.checks = checks
        self.model, self.process, self.truncation, self.stopping = model, model.process, truncation, stopping
        self.timeless = model.timeless
        self.step_kind: type[OverTokens] = model.process.step_representation(model.predicts)
        self.evaluations = torch.zeros(batch, dtype=torch.int64)
        self.last: LazyPrediction | None = None
        self._broken: Tensor | None = None

    @cached_property
    def asks(self) -> bool:
        """True if the host may ask for values on the way: on a CPU alone."""
        return self.model.device is None or self.model.device.type == "cpu"

    def usable(self, logits: Float[Tensor, "positions 1 vocab"]) -> Float[Tensor, "positions 1 vocab"]:
        """Raise where nothing can be drawn from the logits; without `asks`, remember it on the device for `check`."""
        if self.asks:
            check_finite_maximum("logits", logits)
            return logits
        broken = ~logits.amax(-1, keepdim=True).isfinite()
        self._broken = broken.any() if self._broken is None else self._broken | broken.any()
        return logits.masked_fill(broken, 0)

    def check(self) -> None:
        """Raise if logits in this run were what nothing can be drawn from; the host waits for the answer."""
        if self._broken is not None and bool(self._broken):
            raise ValueError(
                "the network's logits held NaN, +inf or only -inf in this run, so its samples mean nothing; run it on "
                "the CPU to see where"
            )

    def last_at(self, noisy: Noisy) -> "LazyPrediction":
        """Return the prediction at a state: the last one, if it was made there."""
        if self.last is not None and self.last.noisy is noisy:
            return self.last
        return LazyPrediction(self, noisy, None if self.stopping is None else self.last)

    def __call__(self, noisy: Noisy) -> "LazyPrediction":
        """Return the prediction at a state; nothing is computed yet."""
        self.last = LazyPrediction(self, noisy, self.last if self.timeless or self.stopping else None)
        return self.last


class LazyPrediction:
    """The prediction at one state, computed where and when it is asked for.

    Rows of the `previous` one are kept where a model that ignores the time reads the same again, and nothing is
    evaluated where the `features` of every row are there already.
    """

    def __init__(
        self, evaluator: Evaluator, noisy: Noisy, previous: "LazyPrediction | None", features: Tensor | None = None
    ) -> None:
        check_type("evaluator", evaluator, Evaluator)
        self.evaluator, self.noisy = evaluator, noisy
        if evaluator.checks:
            self._check(previous)
            if features is not None:
                raise ValueError("features belong to who evaluates the network, as samplers/driven.py does; pass None")
        self._read = noisy.tokens  # what a network that ignores the time reads: tokens, and U where it reads U
        if evaluator.timeless:
            read = evaluator.process.network_input(noisy)
            self._read = read.tokens if read.absorbing is None else torch.cat([read.tokens, read.absorbing], 1)
        self._features = features
        self._known = torch.full((len(noisy.tokens),), features is not None, device=noisy.tokens.device)
        if previous is not None:
            self._features = previous._features
            if evaluator.timeless:
                self._known = previous._known & (self._read == previous._read).all(1)
            if evaluator.stopping is not None:  # predictions for finished rows are ignored
                self._known = self._known | evaluator.stopping.done

    def _check(self, previous: "LazyPrediction | None") -> None:
        """Raise unless the model can be evaluated at the state, and after the previous prediction."""
        check_type("noisy", self.noisy, Noisy)
        check_type("previous", previous, LazyPrediction | None)
        self.evaluator.process.check_state(self.noisy)
        batch, shape = len(self.evaluator.evaluations), self.noisy.tokens.shape
        if shape[0] != batch:
            raise ValueError(f"the state has {shape[0]} rows, but the evaluator counts {batch}; make one of that batch")
        if previous is not None and previous.noisy.tokens.shape != shape:
            had = list(previous.noisy.tokens.shape)
            raise ValueError(f"the previous prediction is of shape {had}, the state of {list(shape)}; pass None")

    def at(self, where: Flags, kind: type[Kind], truncated: bool = True) -> LocalPrediction:
        """Predict the flagged positions, in the representation `kind`."""
        self._check_asked(where, kind)
        if self.evaluator.checks:
            check_type("truncated", truncated, bool)
        at = Positions.of(where)
        noisy, vocab_size = self.noisy.positions(at), self.evaluator.process.vocab_size
        if not len(at.row):
            return LocalPrediction(at, noisy, kind(torch.zeros(0, 1, vocab_size, device=where.device)))
        direct = kind is self.evaluator.model.predicts and not (truncated and self.evaluator.truncation)
        # if `direct`, the result is what the network says: in one piece it is not copied where every position is asked
        most = len(at.row) * vocab_size if direct else None
        with torch.no_grad(), evaluating(self.evaluator.model):  # not inference_mode: a later step may train
            return LocalPrediction(
                at, noisy, kind(collected(len(at.row), self._parts(where, at, noisy, kind, truncated, most)))
            )

    def redrawn(
        self,
        where: Flags,
        kind: type[OverTokens],
        law: Callable[[LocalPrediction], Mixture],
        branch: PerPosition,
        token: PerPosition,
    ) -> Tokens:
        """Draw the flagged positions from a law over their predictions, and return all tokens.

        It goes through the positions part by part, so the prediction is never there as a whole, and each part is drawn
        from while it is in the cache.
        """
        self._check_asked(where, kind)
        at, tokens = Positions.of(where), self.noisy.tokens
        if not len(at.row):
            return tokens
        noisy = self.noisy.positions(at)
        with torch.no_grad(), evaluating(self.evaluator.model):
            for rows, logits in self._parts(where, at, noisy, kind, True, None):
                local = LocalPrediction(at.at(rows), noisy.sequences(rows), kind(logits))
                tokens = local.draw_from(law(local), tokens, branch, token)
        return tokens

    def _check_asked(self, where: Flags, kind: type[OverTokens]) -> None:
        """Raise unless these positions can be predicted in this representation."""
        if self.evaluator.checks:
            check_type("where", where, Flags)
            check_mask("where", where, self.noisy.tokens)
            if kind is not Denoiser and kind is not LeaveOneOut:
                raise ValueError(f"kind must be Denoiser or LeaveOneOut, got {kind!r}")

    def _parts(
        self, where: Flags, at: Positions, noisy: Noisy, kind: type[OverTokens], truncated: bool, most: int | None
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield the logits of the prediction, a part of the positions at a time; `most` elements each, or a few.

        Where all positions are asked about, they may be those that the network returned.
        """
        evaluator, vocab_size = self.evaluator, self.evaluator.process.vocab_size
        features, truncation = self._evaluated(where.any(1)), evaluator.truncation if truncated else None
        every = features.flatten(0, 1) if len(at.row) == where.numel() else None
        for part in chunks(len(at.row), vocab_size, max(most or 0, HEAD_ELEMENTS)):
            taken = features[at.row[part], at.column[part]] if every is None else every[part]
            raw = evaluator.model.head(taken).unsqueeze(1)
            for piece in chunks(len(raw), vocab_size, most):
                rows = slice(part.start + piece.start, part.start + piece.stop)
                yield rows, self._interpreted(raw[piece], noisy.sequences(rows), kind, truncation).logits

    def _interpreted(self, logits: Tensor, noisy: Noisy, kind: type[Kind], truncation: Truncation | None) -> Kind:
        """Read the network's logits at some positions, truncate them, and convert them to what the kernel needs."""
        model, process = self.evaluator.model, self.evaluator.process
        logits = self.evaluator.usable(logits)
        posterior: Posterior = model.interpret(logits.to(torch.promote_types(logits.dtype, torch.float32)), noisy)
        if truncation is None:
            return convert_at(posterior, kind, noisy, process)
        on = convert_at(posterior, truncation.on, noisy, process)
        kept = truncation.on(truncate_checked(on.logits, truncation, self.evaluator.asks))
        cut = convert_at(kept, kind, noisy, process)
        if not (isinstance(posterior, Denoiser) and kind is Denoiser):
            return cut
        revealed = process.evidence(noisy).isposinf().unsqueeze(-1)  # a point mass stays what it is
        if self.evaluator.asks and not bool(revealed.any()):
            return cut
        return kind(torch.where(revealed, posterior.logits, cut.logits))

    def everywhere(self, kind: type[Kind], truncated: bool = True) -> Kind:
        """Predict every position."""
        local = self.at(torch.ones_like(self.noisy.tokens, dtype=torch.bool), kind, truncated)
        return kind(local.posterior.logits.view(*self.noisy.tokens.shape, -1))

    def _evaluated(self, needed: Bool[Tensor, "batch"]) -> Tensor:
        """Return the features, with the needed rows filled in."""
        missing, evaluator = needed & ~self._known, self.evaluator
        rows = missing.nonzero().squeeze(1)
        if len(rows):
            evaluator.evaluations = evaluator.evaluations.to(missing.device) + missing
            whole = len(rows) == len(missing)
            fresh = evaluator.model.body(self.noisy if whole else self.noisy.sequences(rows))
            if not whole:
                blank = fresh.new_zeros((len(missing), *fresh.shape[1:])) if self._features is None else self._features
                fresh = blank.index_copy(0, rows, fresh)
            self._features, self._known = fresh, self._known | missing
            if evaluator.stopping is not None:  # offer the most probable tokens of the rows evaluated just now
                where = torch.zeros_like(self.noisy.tokens, dtype=torch.bool).index_fill(0, rows, True)
                logits = self.at(where, Denoiser).posterior.logits.view(len(rows), where.shape[1], -1)
                evaluator.stopping.offer(rows, logits, self.noisy.t[rows])
        assert self._features is not None
        return self._features
