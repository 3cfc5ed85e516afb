r"""Gibbs correctors: k positions are redrawn from their conditional at the current level, m times (`alg:pc`).

    x_t^l  ~  p_t(. | x_t^{-l}) = alpha_t nu^l + (1 - alpha_t) / K                        (`prop:gibbs-conditional`)

The conditional comes from the leave-one-out posterior, converted from whatever the model predicts, so any model with
uniform marginals has these correctors.  One position at a time in a random or a fixed order leaves p_t invariant; k at
once is the Hogwild approximation.  The informed corrector redraws the positions of smallest margin,

    margin^l = log p_t(x_t^l | x_t^{-l}) - max over y != x_t^l of log p_t(y | x_t^{-l}),

or draws them with probability decreasing in it (Gumbel top-k, `temperature`).  Because the choice of l looks at x_t^l,
the informed scan does not leave p_t invariant, even for k = 1: it is meant to repair, not to mix.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch

from tokenloom.posteriors import LeaveOneOut
from tokenloom.processes import MaxCoupling, Uniform
from tokenloom.randomness import Randomness, uniform
from tokenloom.samplers.evaluator import Evaluator, Prediction
from tokenloom.samplers.kernel import Corrector, free, register, two_numbers
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition


@dataclass(frozen=True)
class Gibbs(Corrector):
    """What the scans share."""

    steps: int = 1
    """Corrector steps after each predictor step, m."""
    parallel: int = 1
    """Positions redrawn at once, k."""

    serves = (Uniform, MaxCoupling)

    def __post_init__(self) -> None:
        for option in ("steps", "parallel"):
            if getattr(self, option) < 1:
                raise ValueError(f"{option} must be at least 1, got {getattr(self, option)}")

    @property
    def evaluations(self) -> int:
        return self.steps

    @abstractmethod
    def choose(self, prediction: Prediction, order: PerPosition, index: int) -> Flags:
        """The positions of step `index`, counted over the whole run; `order` are uniform numbers."""

    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        process = evaluate.process
        for step in range(self.steps):
            order = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
            branch, token = two_numbers(noisy, generator)
            prediction = evaluate(noisy)
            answer = prediction.at(self.choose(prediction, order, call * self.steps + step), LeaveOneOut)
            conditional = process.marginal(answer.noisy, answer.posterior)
            noisy = process.arrive(noisy, answer.draw_from(conditional, noisy.tokens, branch, token), noisy.t)
        return noisy


@register("informed")
@dataclass(frozen=True)
class Informed(Gibbs):
    """The positions of smallest margin (`alg:pc`)."""

    temperature: float = 0.0
    """0 takes the smallest margins; above, margin / temperature + Gumbel noise decides."""

    exact = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be in [0, inf), got {self.temperature}")

    def choose(self, prediction: Prediction, order: PerPosition, index: int) -> Flags:
        scores = margins(prediction)
        if self.temperature > 0:
            scores = scores / self.temperature - gumbel(order)
        return smallest(scores, self.parallel)


@register("random-scan")
@dataclass(frozen=True)
class RandomScan(Gibbs):
    """Positions in random order."""

    def choose(self, prediction: Prediction, order: PerPosition, index: int) -> Flags:
        return smallest(order.masked_fill(~free(prediction.noisy), torch.inf), self.parallel)


@register("scan")
@dataclass(frozen=True)
class DeterministicScan(Gibbs):
    """Free positions in reading order, going on where the last step ended."""

    def choose(self, prediction: Prediction, order: PerPosition, index: int) -> Flags:
        movable = free(prediction.noisy)
        count = movable.sum(1, keepdim=True).clamp(min=1)
        rank = movable.cumsum(1) - 1
        return movable & ((rank - index * self.parallel) % count < self.parallel)


def margins(prediction: Prediction) -> PerPosition:
    """The margin of every position, +inf where it is given; from the prediction before truncation."""
    noisy, process = prediction.noisy, prediction.evaluator.process
    answer = prediction.at(free(noisy), LeaveOneOut, truncated=False)
    logits, own_index = answer.posterior.logits.float(), answer.noisy.tokens.unsqueeze(-1)
    alpha = answer.rows(noisy.alpha_t)[:, None]
    total = logits.logsumexp(-1)
    own = logits.gather(-1, own_index).squeeze(-1)
    best = logits.scatter(-1, own_index, -torch.inf).amax(-1)
    own, best = (alpha * (value - total).double().exp() + (1 - alpha) / process.vocab_size for value in (own, best))
    return torch.full_like(noisy.tokens, torch.inf, dtype=torch.float64).masked_scatter(
        answer.where, own.log() - best.log()
    )
