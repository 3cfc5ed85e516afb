r"""Left to right, for a causal network: x^l ~ p(. | x^1 .. x^{l-1}), one evaluation a position, whatever `steps` says.

The grid only says where the driver looks: at time t the first (1 - t) L positions are written.  The network is shown
the time it is trained at, 0, and has not seen the token that a draw replaces: whatever the time, that token says
nothing, so the denoiser is the leave-one-out posterior (alpha = 0).
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.posteriors import LeaveOneOut
from tokenloom.processes import Uniform
from tokenloom.randomness import Randomness, uniform
from tokenloom.samplers.evaluator import Evaluator, Model
from tokenloom.samplers.kernel import Predictor, free
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@dataclass(frozen=True)
class Autoregressive(Predictor):
    """The one sampler of a causal network."""

    name = "autoregressive"
    serves = (Uniform,)

    def check(self, model: Model) -> None:
        super().check(model)
        if not model.causal:
            raise ValueError("autoregressive sampling needs a causal network, and this one sees every position")

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        if not len(s):
            return evaluate.process.arrive(noisy, noisy.tokens, s)
        length = noisy.tokens.shape[1]
        first, last = (round(length * (1 - float(time[0]))) for time in (noisy.t, s))
        movable, zero = free(noisy), torch.zeros_like(s)
        for position in range(first, last):
            u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
            here = torch.zeros_like(movable)
            here[:, position] = movable[:, position]
            answer = evaluate(replace(noisy, t=zero, alpha_t=zero)).at(here, LeaveOneOut)
            noisy = evaluate.process.arrive(noisy, answer.draw(noisy.tokens, u), noisy.t)
        return evaluate.process.arrive(noisy, noisy.tokens, s)
