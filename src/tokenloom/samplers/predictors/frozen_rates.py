r"""A step with the reverse rates frozen over it: at most one jump per position, Euler's way or by tau-leaping.

    x_s = x_t, or with probability f((t - s) r) a token y != x_t with probability rate(y) / r,    r = sum of rate(y)

    Euler         f(m) = m, cut at 1: right to first order in the step
    tau-leaping   N ~ Poisson(m) jumps: N = 0 stays, N = 1 jumps, N >= 2 is rejected and stays, so f(m) = m exp(-m)
                  (tokens have no order in which jumps could add up; Campbell et al.)

The rates are those of `couplings/base.py`.  They diverge at t = 0, and those of renewed noise where alpha_t = 0: a step
that ends in the first or begins in the second is an ancestral one.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch

from tokenloom.couplings.steps import rate_bound, reverse_rates
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor, uniform_pair
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow


@dataclass(frozen=True)
class FrozenRates(Predictor):
    """A step with frozen rates, whose probability of a jump is left to a subclass."""

    needs = "a process that jumps at random times"

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.has_jump_rates

    @abstractmethod
    def probability(self, expected: PerPosition) -> PerPosition:
        """Return f, the probability of a jump where so many are expected."""

    def most(self, expected: PerPosition) -> PerPosition:
        """Return the largest f of an expected number up to this one, which is f itself where f rises."""
        return self.probability(expected)

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        if bool(((s == 0) | (noisy.alpha_t == 0)).all()):
            return Ancestral().step(evaluate, noisy, s, generator)
        process = evaluate.process
        branch, token = uniform_pair(noisy, generator)
        jump = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        moving = jump < self.most((noisy.t - s)[:, None] * rate_bound(process, noisy))
        local = evaluate(noisy).at(moving, evaluate.step_kind)
        rates, here = reverse_rates(process, local.noisy, local.posterior), local.where
        expected = local.of_row(noisy.t - s)[:, None] * rates.elsewhere().sum(-1)
        jumped = rates.invert_elsewhere(here.take(branch), here.take(token))
        arrived = torch.where(here.take(jump) < self.probability(expected), jumped, local.noisy.tokens)
        return process.move_to(noisy, here.put(noisy.tokens, arrived), s)


@PREDICTORS.register("euler")
@dataclass(frozen=True)
class Euler(FrozenRates):
    """Euler steps, of first order."""

    def probability(self, expected: PerPosition) -> PerPosition:
        return expected


@PREDICTORS.register("tau-leaping")
@dataclass(frozen=True)
class TauLeaping(FrozenRates):
    """Tau-leaping, with the reject rule."""

    def probability(self, expected: PerPosition) -> PerPosition:
        return expected * torch.exp(-expected)

    def most(self, expected: PerPosition) -> PerPosition:
        return self.probability(expected.clamp(max=1))
