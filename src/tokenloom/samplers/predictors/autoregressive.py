r"""Left to right, for a causal model, one evaluation per position, whatever `steps` says.

    x^l ~ p(. | x^1 .. x^{l-1}),      l = 1 .. L

The grid only says where the driver looks: at time t the first (1 - t) L positions are written
(`couplings/left_to_right.py`).
"""

from dataclasses import dataclass

import torch

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import LeaveOneOut
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@PREDICTORS.register("autoregressive")
@dataclass(frozen=True)
class Autoregressive(Predictor):
    """One position after the other."""

    needs = "a causal model"

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.sequential

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process, free = evaluate.process, noisy.free
        length = noisy.tokens.shape[1]
        first, last = (round(length * (1 - float(time[0]))) if len(time) else 0 for time in (noisy.t, s))
        for position in range(first, last):
            u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
            here = torch.zeros_like(free)
            here[:, position] = free[:, position]
            local = evaluate(noisy).at(here, LeaveOneOut)
            noisy = process.move_to(noisy, local.draw(noisy.tokens, u), noisy.t)
        return process.move_to(noisy, noisy.tokens, s)
