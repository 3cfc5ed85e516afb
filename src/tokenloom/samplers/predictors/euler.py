r"""Euler steps of the reverse rates: at most one jump a position, with probability (t - s) times the rate of leaving.

    x_s = x_t with probability 1 - (t - s) r,   else y != x_t with probability rate(y) / r,   r = sum of rate(y)

where the rates are those of `rates.py` and (t - s) r is cut at 1.  At t = 0 the rates diverge: a last step to s = 0 is
an ancestral one.
"""

from dataclasses import dataclass

import torch

from tokenloom.processes import AbsorbingUniform, Masked, MaxCoupling, Uniform
from tokenloom.randomness import Randomness, uniform
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import Predictor, natural, register, two_numbers
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@register("euler")
@dataclass(frozen=True)
class Euler(Predictor):
    """First order in the step."""

    serves = (Uniform, Masked, MaxCoupling, AbsorbingUniform)

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        if bool((s == 0).all()):
            return Ancestral().step(evaluate, noisy, s, generator)
        process = evaluate.process
        branch, token = two_numbers(noisy, generator)
        jump = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        moving = jump < (noisy.t - s)[:, None] * process.rate_bound(noisy)
        answer = evaluate(noisy).at(moving, natural(evaluate.model))
        rates = process.reverse_rates(answer.noisy, answer.posterior)
        leaving = answer.at(jump) < answer.rows(noisy.t - s)[:, None] * rates.elsewhere().sum(-1)
        jumped = rates.invert_elsewhere(answer.at(branch), answer.at(token))
        return process.arrive(noisy, answer.scatter(noisy.tokens, torch.where(leaving, jumped, answer.noisy.tokens)), s)
