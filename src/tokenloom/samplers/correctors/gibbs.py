r"""Gibbs correctors: k positions are redrawn from their conditional at the current level, m times (`alg:pc`).

    x_t^l  ~  p_t(. | x_t^{-l}) = alpha_t nu^l + (1 - alpha_t) pi                         (`prop:gibbs-conditional`)

The conditional comes from the leave-one-out posterior, converted from whatever the model predicts, so any model whose
tokens always leave some doubt has these correctors.  One position at a time in a random or a fixed order leaves p_t
invariant; k at once is the Hogwild approximation.  A redraw often returns the token that is there.  Liu's Metropolised
form never proposes it, and leaves p_t invariant too:

    y != x  with probability  p(y) / (1 - p(x)),  accepted with  min(1, (1 - p(x)) / (1 - p(y))),  p = p_t(. | x_t^{-l})

It moves to each other token at least as often as a redraw, so averages over a random scan vary no more (Peskun).
"""

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch

from tokenloom.couplings.steps import Mixture, Rates, marginal
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import LeaveOneOut
from tokenloom.samplers.evaluator import Evaluator, LazyPrediction, LocalPrediction
from tokenloom.samplers.kernel import CORRECTORS, Corrector, InDoubt, uniform_pair
from tokenloom.samplers.selection import smallest
from tokenloom.state import Noisy
from tokenloom.support.typed import Count
from tokenloom.types import PerPosition, Tokens


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

    def redraw(
        self, local: LocalPrediction, conditional: Mixture, noisy: Noisy, generator: Randomness | None
    ) -> Tokens:
        """Redraw the chosen positions, and return all tokens."""
        branch, token = uniform_pair(noisy, generator)
        return local.draw_from(conditional, noisy.tokens, branch, token)

    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        process = evaluate.process
        for step in range(self.steps):
            order = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
            local = self.choose(evaluate(noisy), order, call * self.steps + step)
            conditional = marginal(process, local.noisy, local.posterior)
            noisy = process.move_to(noisy, self.redraw(local, conditional, noisy, generator), noisy.t)
        return noisy


@dataclass(frozen=True)
class Scan(Gibbs):
    """A Gibbs corrector that chooses without looking at the tokens, and may be Metropolised."""

    metropolised: bool = False
    """Propose another token than the one that is there, and accept it so that p_t stays invariant (Liu)."""

    def redraw(
        self, local: LocalPrediction, conditional: Mixture, noisy: Noisy, generator: Randomness | None
    ) -> Tokens:
        if not self.metropolised:
            return super().redraw(local, conditional, noisy, generator)
        branch, token = uniform_pair(noisy, generator)
        accept = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        here, current = local.where, local.noisy.tokens
        away = Rates(conditional.weights, current, conditional.prediction, conditional.noise)
        proposed = away.invert_elsewhere(here.take(branch), here.take(token))
        leaving, returning = (rates.elsewhere().sum(-1) for rates in (away, replace(away, stay=proposed)))  # 1 - p
        return here.put(noisy.tokens, torch.where(here.take(accept) * returning < leaving, proposed, current))


@CORRECTORS.register("random-scan")
@dataclass(frozen=True)
class RandomScan(Scan):
    """Redraw positions in random order."""

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> LocalPrediction:
        return at_random(prediction, order, self.parallel)


@CORRECTORS.register("scan")
@dataclass(frozen=True)
class DeterministicScan(Scan):
    """Redraw the free positions in reading order, continuing where the last step ended."""

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> LocalPrediction:
        free = prediction.noisy.free
        count = free.sum(1, keepdim=True).clamp(min=1)
        rank = free.cumsum(1) - 1
        return prediction.at(free & ((rank - index * self.parallel) % count < self.parallel), LeaveOneOut)


def at_random(prediction: LazyPrediction, order: PerPosition, count: int) -> LocalPrediction:
    """Predict `count` free positions, drawn evenly without replacement."""
    chosen = smallest(order.masked_fill(~prediction.noisy.free, torch.inf), count)
    return prediction.at(chosen, LeaveOneOut)
