r"""Tau-leaping: the reverse rates are frozen over a step and each position jumps a Poisson number of times.

    N ~ Poisson((t - s) r),   r = sum over y != x_t of the rate to y
    N = 0: stay.   N = 1: jump to y with probability rate(y) / r.   N >= 2: rejected, the position stays

(tokens have no order in which jumps could add up; Campbell et al.).  At t = 0 the rates diverge: a last step to s = 0
is an ancestral one.
"""

from dataclasses import dataclass

import torch

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.processes.base import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor, uniform_pair
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@PREDICTORS.register("tau-leaping")
@dataclass(frozen=True)
class TauLeaping(Predictor):
    """Frozen rates, with the reject rule."""

    needs = "a process that jumps at random times"

    @classmethod
    def serves(cls, process: Process) -> bool:
        return process.has_jump_rates

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        if bool((s == 0).all()):
            return Ancestral().step(evaluate, noisy, s, generator)
        process = evaluate.process
        count, token = uniform_pair(noisy, generator)
        branch = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        no_jump = torch.exp(-(noisy.t - s)[:, None] * process.rate_bound(noisy))
        local = evaluate(noisy).at(count >= no_jump, evaluate.step_kind)
        rates = process.reverse_rates(local.noisy, local.posterior)
        mean = local.of_row(noisy.t - s)[:, None] * rates.elsewhere().sum(-1)
        number, zero = local.of_position(count), torch.exp(-mean)
        once = (number >= zero) & (number < zero * (1 + mean))
        jumped = rates.invert_elsewhere(local.of_position(branch), local.of_position(token))
        return process.move_to(noisy, local.put(noisy.tokens, torch.where(once, jumped, local.noisy.tokens)), s)
