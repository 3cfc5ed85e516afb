r"""The balanced corrector: a Markov jump process that is informed and leaves p_t invariant (Zanella 2020).

    x -> y  at the rate  g(p_t(y) / p_t(x)) / (n (S - 1)),   g(r) = r g(1/r),   where y differs from x at one position

with n free positions of S states each.  The ratios are p(y) / p(x_t^l), of the conditional p = alpha_t nu^l +
(1 - alpha_t) pi of `gibbs.py`.  p_t(x) rate(x -> y) is symmetric, so a run of fixed time T keeps p_t.

A run that ends after a number of jumps does not (it keeps p_t times the total rate), nor does one that ends where the
evaluations do.  Each state on a path costs an evaluation, the last one too: its rates say that no jump follows.  A path
with more than `steps` jumps in T is dropped, and its row stays where it began.  Backwards in time a path has as many
jumps, so the paths that are kept balance each other one by one: p_t is kept exactly, at every T and every `steps`.

In parallel every position is a process of its own for the time T / steps, at the conditional that it has at the start,
with at most one jump, or it returns; the rates after the jump come from the same conditional.  Independent positions
are exact.  Others do not see each other jump: each of the steps changes p_t by a multiple of (T / steps)^2.

A truncated prediction makes p what is in general the conditional of no joint law; then nothing is kept exactly, as with
Gibbs correctors.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import one_hot

from tokenloom.couplings.steps import marginal
from tokenloom.drawing.categorical import invert
from tokenloom.drawing.chunks import CACHED, by_chunks
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import LeaveOneOut
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator, LocalPrediction
from tokenloom.samplers.kernel import CORRECTORS, Corrector, InDoubt, uniform_pair
from tokenloom.state import Noisy
from tokenloom.support.typed import Count, Positive
from tokenloom.types import PerPosition

BALANCING: dict[str, Callable[[Tensor], Tensor]] = {
    "max": lambda ratio: ratio.clamp(min=1),
    "sqrt": torch.sqrt,
    "barker": lambda ratio: ratio / (1 + ratio),
    "min": lambda ratio: ratio.clamp(max=1),
}
"""The functions g."""
LEAST = torch.finfo(torch.float32).tiny


@CORRECTORS.register("balanced")
@dataclass(frozen=True)
class Balanced(InDoubt, Corrector):
    """Jump at balanced rates for a fixed time: improbable tokens leave soon, and p_t stays invariant."""

    g: Literal["max", "sqrt", "barker", "min"] = "max"
    """The balancing function: max(1, r), the root of r, r / (1 + r) or min(1, r)."""
    steps: Count = 1
    """The most jumps after each predictor step, which cost up to one evaluation more; in parallel, evaluations."""
    time: Positive = 1.0
    """The running time, in expected jumps of a row in which all tokens are equally likely (half of them for barker)."""
    parallel: bool = False
    """Run every position on its own, with one evaluation per step; exact only for independent positions."""

    @property
    def exact(self) -> bool:
        return not self.parallel

    @property
    def evaluations(self) -> int:
        return self.steps if self.parallel else self.steps + 1

    def once(self) -> Corrector:
        return replace(self, steps=1, time=self.time / self.steps) if self.parallel else super().once()

    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        if not self.parallel:
            return self._jumped(evaluate, noisy, generator)
        for _ in range(self.steps):
            noisy = self._leapt(evaluate, noisy, generator)
        return noisy

    def _jumped(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None) -> Noisy:
        """Run the process jump by jump; a row whose time is not up after the last evaluation returns to its start."""
        start, left = noisy, torch.full_like(noisy.t, self.time, dtype=torch.float64)
        for jumps in range(self.steps + 1):
            wait, place, token = uniform((len(left), 3), generator, left.device).unbind(1)
            local = evaluate(noisy).at(noisy.free & (left > 0)[:, None], LeaveOneOut)
            leaving = self.leaving(local, noisy, evaluate.process)
            total = leaving.sum(1)
            left = left + torch.log1p(-wait) / total  # minus the time to the next jump; -inf where there is none
            if jumps < self.steps:
                position = invert(torch.where(total[:, None] > 0, leaving, 1), place)
                there = one_hot(position, leaving.shape[1]).bool() & (left > 0)[:, None]
                noisy = self._moved(local.among(there), noisy, token[:, None].expand_as(leaving), evaluate.process)
        tokens = torch.where((left > 0)[:, None], start.tokens, noisy.tokens)
        return evaluate.process.move_to(noisy, tokens, noisy.t)

    def _leapt(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None) -> Noisy:
        """Run every position on its own; most are known to stay before anything is predicted."""
        process, span = evaluate.process, self.time / self.steps
        jump, token = uniform_pair(noisy, generator)
        again = uniform(tuple(jump.shape), generator, jump.device)
        first, second = -torch.log1p(-jump), -torch.log1p(-again)  # the waiting times at a rate of 1
        local = evaluate(noisy).at(noisy.free & (first < span * self.bound(noisy, process)), LeaveOneOut)
        waited = first / self.leaving(local, noisy, process)
        local = local.among(waited < span)
        moved = self._moved(local, noisy, token, process)
        there = replace(local, noisy=moved.positions(local.where))  # whose prediction does not see its own token
        kept = waited + second / self.leaving(there, moved, process) > span
        return process.move_to(noisy, torch.where(kept, moved.tokens, noisy.tokens), noisy.t)

    def _moved(self, local: LocalPrediction, noisy: Noisy, token: PerPosition, process: Process) -> Noisy:
        """Move the predicted positions to other tokens, by their rates."""
        numbers = local.where.take(token).squeeze(1)
        drawn = self._over_rates(local, process, lambda rates, part: invert(rates, numbers[part]))
        return process.move_to(noisy, local.where.put(noisy.tokens, drawn), noisy.t)

    def leaving(self, local: LocalPrediction, noisy: Noisy, process: Process) -> PerPosition:
        """Return the rate of leaving each predicted position, 0 elsewhere."""
        sums = self._over_rates(local, process, lambda rates, part: rates.sum(-1).double())
        nothing = torch.zeros_like(noisy.tokens, dtype=torch.float64)
        return local.where.put(nothing, sums) / _neighbours(noisy, process)

    def _over_rates(
        self, local: LocalPrediction, process: Process, compute: Callable[[Tensor, slice], Tensor]
    ) -> Shaped[Tensor, "positions 1"]:
        """Compute a value of each predicted position from its rates, a part of the positions at a time."""
        rows = local.posterior.logits.squeeze(1)

        def values(part: slice) -> Tensor:
            return compute(self.rates(rows[part], local.noisy.sequences(part), process), part).unsqueeze(1)

        return by_chunks(len(rows), rows.shape[1], values, CACHED)

    def rates(
        self, logits: Float[Tensor, "positions vocab"], noisy: Noisy, process: Process
    ) -> Float[Tensor, "positions states"]:
        """Return g of the ratio at every state of each position, 0 at x_t; times 1 / (n (S - 1)) it is the rate."""
        dtype = torch.promote_types(logits.dtype, torch.float32)
        law = marginal(process, noisy, LeaveOneOut(logits.unsqueeze(1))).dense(dtype).squeeze(1)
        ratio = law / law.gather(-1, noisy.tokens).clamp(min=LEAST)
        return BALANCING[self.g](ratio).scatter(-1, noisy.tokens, 0)

    def bound(self, noisy: Noisy, process: Process) -> PerPosition:
        """Return the largest rate of leaving each position, whatever is predicted.

        p(x_t) is at least the noise mass m of x_t, so the mean of the other ratios is at most 1 / (m (S - 1)).  The
        mean of a concave g is at most g of the mean, and max(1, r) is at most 1 + r.
        """
        others = process.num_states - 1
        mean = 1 / (process.path.mass(process, noisy).clamp(min=LEAST) * others)
        return (1 + mean if self.g == "max" else BALANCING[self.g](mean)) * others / _neighbours(noisy, process)


def _neighbours(noisy: Noisy, process: Process) -> Float[Tensor, "batch 1"]:
    """Return n (S - 1), the number of sequences that one jump can reach."""
    return noisy.free.sum(1, keepdim=True).clamp(min=1).double() * (process.num_states - 1)
