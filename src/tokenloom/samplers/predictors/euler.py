r"""Euler steps of the reverse rates: at most one jump a position, with probability (t - s) times the rate of leaving.

    x_s = x_t with probability 1 - (t - s) r,   else y != x_t with probability rate(y) / r,   r = sum of rate(y)

where the rates are those of `rates.py` and (t - s) r is cut at 1.  At t = 0 the rates diverge: a last step to s = 0 is
an ancestral one.
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


@PREDICTORS.register("euler")
@dataclass(frozen=True)
class Euler(Predictor):
    """First order in the step."""

    needs = "a process that jumps at random times"

    @classmethod
    def serves(cls, process: Process) -> bool:
        return process.has_jump_rates

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        if bool((s == 0).all()):
            return Ancestral().step(evaluate, noisy, s, generator)
        process = evaluate.process
        branch, token = uniform_pair(noisy, generator)
        jump = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        moving = jump < (noisy.t - s)[:, None] * process.rate_bound(noisy)
        local = evaluate(noisy).at(moving, evaluate.step_kind)
        rates = process.reverse_rates(local.noisy, local.posterior)
        leaving = local.of_position(jump) < local.of_row(noisy.t - s)[:, None] * rates.elsewhere().sum(-1)
        jumped = rates.invert_elsewhere(local.of_position(branch), local.of_position(token))
        return process.move_to(noisy, local.put(noisy.tokens, torch.where(leaving, jumped, local.noisy.tokens)), s)
