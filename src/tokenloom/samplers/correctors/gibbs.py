r"""Gibbs correctors: k positions are redrawn from their conditional at the current level, m times (`alg:pc`).

    x_t^l  ~  p_t(. | x_t^{-l}) = alpha_t nu^l + (1 - alpha_t) pi                         (`prop:gibbs-conditional`)

The conditional comes from the leave-one-out posterior, converted from whatever the model predicts, so any model whose
tokens always leave some doubt has these correctors.  One position at a time in a random or a fixed order leaves p_t
invariant; k at once is the Hogwild approximation.  The informed corrector redraws the positions of smallest margin,

    margin^l = log p_t(x_t^l | x_t^{-l}) - max over y != x_t^l of log p_t(y | x_t^{-l}),

or draws them with probability decreasing in it (Gumbel top-k, `temperature`).  Because the choice of l looks at x_t^l,
the informed scan does not leave p_t invariant, even for k = 1: it is meant to repair, not to mix.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.couplings.steps import marginal
from tokenloom.drawing.chunks import CACHED, by_chunks
from tokenloom.drawing.log_space import log_total
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import LeaveOneOut, gibbs_conditional
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator, LazyPrediction, LocalPrediction
from tokenloom.samplers.kernel import CORRECTORS, Corrector, InDoubt, uniform_pair
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.support.typed import Count, NotNegative
from tokenloom.types import PerPosition


@dataclass(frozen=True)
class Gibbs(InDoubt, Corrector):
    """Redraw positions, which a subclass chooses, from their conditional."""

    steps: Count = 1
    """Corrector steps after each predictor step, m."""
    parallel: Count = 1
    """Positions redrawn at once, k."""

    @property
    def exact(self) -> bool:
        return self.parallel == 1  # positions redrawn at once do not see each other: p_t is only nearly invariant

    @property
    def evaluations(self) -> int:
        return self.steps

    @abstractmethod
    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> LocalPrediction:
        """Choose the positions to redraw, and return the prediction at each."""

    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        process = evaluate.process
        for step in range(self.steps):
            order = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
            branch, token = uniform_pair(noisy, generator)
            local = self.choose(evaluate(noisy), order, call * self.steps + step)
            conditional = marginal(process, local.noisy, local.posterior)
            noisy = process.move_to(noisy, local.draw_from(conditional, noisy.tokens, branch, token), noisy.t)
        return noisy


@CORRECTORS.register("informed")
@dataclass(frozen=True)
class Informed(Gibbs):
    """Redraw the positions of smallest margin (`alg:pc`)."""

    temperature: NotNegative = 0.0
    """0 takes the smallest margins; above, margin / temperature + Gumbel noise decides."""

    exact = False

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> LocalPrediction:
        everywhere = prediction.at(prediction.noisy.free, LeaveOneOut, truncated=False)
        scores = margins(everywhere, prediction.noisy, prediction.evaluator.process)
        if self.temperature > 0:
            scores = scores / self.temperature - gumbel(order)
        chosen = smallest(scores, self.parallel, order)
        if prediction.evaluator.truncation is None:
            return everywhere.among(chosen)
        return prediction.at(chosen, LeaveOneOut)


@CORRECTORS.register("random-scan")
@dataclass(frozen=True)
class RandomScan(Gibbs):
    """Redraw positions in random order."""

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> LocalPrediction:
        chosen = smallest(order.masked_fill(~prediction.noisy.free, torch.inf), self.parallel)
        return prediction.at(chosen, LeaveOneOut)


@CORRECTORS.register("scan")
@dataclass(frozen=True)
class DeterministicScan(Gibbs):
    """Redraw the free positions in reading order, continuing where the last step ended."""

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> LocalPrediction:
        free = prediction.noisy.free
        count = free.sum(1, keepdim=True).clamp(min=1)
        rank = free.cumsum(1) - 1
        return prediction.at(free & ((rank - index * self.parallel) % count < self.parallel), LeaveOneOut)


def margins(local: LocalPrediction, noisy: Noisy, process: Process) -> PerPosition:
    """Return the margin of every position, +inf where it is given."""
    logits = local.posterior.logits.squeeze(1)
    values = by_chunks(
        len(logits), logits.shape[1], lambda part: _margin(logits[part], local.noisy.sequences(part), process), CACHED
    )
    return local.where.put(torch.full_like(noisy.tokens, torch.inf, dtype=torch.float64), values)


def _margin(logits: Float[Tensor, "positions vocab"], noisy: Noisy, process: Process) -> Float[Tensor, "positions 1"]:
    """Return the margin of each position; for uniform noise from its largest entries alone."""
    index = noisy.tokens
    if not process.uniform_noise:
        law = gibbs_conditional(LeaveOneOut(logits.unsqueeze(1)), noisy, process).double().squeeze(1)
        return law.gather(-1, index) - law.scatter(-1, index, -torch.inf).amax(-1, keepdim=True)
    others = logits.float().scatter(-1, index, -torch.inf)
    best, own = others.amax(-1, keepdim=True).double(), logits.gather(-1, index).double()
    total = torch.logaddexp(log_total(others).unsqueeze(-1).double(), own)
    alpha = noisy.alpha_t[:, None]
    own, best = (torch.log(alpha * (value - total).exp() + (1 - alpha) / process.vocab_size) for value in (own, best))
    return own - best
