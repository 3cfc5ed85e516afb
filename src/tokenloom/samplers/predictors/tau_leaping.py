r"""Tau-leaping: the reverse rates are frozen over a step and each position jumps a Poisson number of times.

    N ~ Poisson((t - s) r),   r = sum over y != x_t of the rate to y
    N = 0: stay.   N = 1: jump to y with probability rate(y) / r.   N >= 2: rejected, the position stays

(tokens have no order in which jumps could add up; Campbell et al.).  At t = 0 the rates diverge: a last step to s = 0
is an ancestral one.
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


@register("tau-leaping")
@dataclass(frozen=True)
class TauLeaping(Predictor):
    """Frozen rates, with the reject rule."""

    serves = (Uniform, Masked, MaxCoupling, AbsorbingUniform)

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        if bool((s == 0).all()):
            return Ancestral().step(evaluate, noisy, s, generator)
        process = evaluate.process
        count, token = two_numbers(noisy, generator)
        branch = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        no_jump = torch.exp(-(noisy.t - s)[:, None] * process.rate_bound(noisy))
        answer = evaluate(noisy).at(count >= no_jump, natural(evaluate.model))
        rates = process.reverse_rates(answer.noisy, answer.posterior)
        mean = answer.rows(noisy.t - s)[:, None] * rates.elsewhere().sum(-1)
        number, zero = answer.at(count), torch.exp(-mean)
        once = (number >= zero) & (number < zero * (1 + mean))
        jumped = rates.invert_elsewhere(answer.at(branch), answer.at(token))
        return process.arrive(noisy, answer.scatter(noisy.tokens, torch.where(once, jumped, answer.noisy.tokens)), s)
