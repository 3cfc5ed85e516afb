r"""DNDM (Chen et al.): transition times with a *plain* denoiser, which is not told them.

    tau^l with P(tau < t) = 1 - alpha_t, drawn once;   x_s^l ~ mu^l(x_t) where s < tau^l <= t, else x_t^l

The network is asked only when a transition falls into the step.  Given tau the exact posterior is a masked model's
(`lem:mudm-denoiser-equivalence`), not mu: use `mudm` for a chain that ends in p_0.
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.posteriors import Denoiser
from tokenloom.processes import Process, Uniform
from tokenloom.randomness import Randomness, uniform
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import Predictor, free, register
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@register("dndm")
@dataclass(frozen=True)
class DNDM(Predictor):
    """Fixed transition times; `aux` of the state holds them."""

    serves = (Uniform,)
    exact = False

    def initial(
        self, process: Process, batch: int, length: int, generator: Randomness | None, device: torch.device
    ) -> Noisy:
        state = process.prior(batch, length, generator, device)
        u = uniform((batch, length), generator, state.tokens.device)
        alpha_1 = state.alpha_t[:, None]
        return replace(state, aux=process.schedule.inverse(alpha_1 + (1 - alpha_1) * u).clamp(max=1))

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        assert noisy.aux is not None
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        arriving = free(noisy) & (noisy.aux > s[:, None]) & (noisy.aux <= noisy.t[:, None])
        answer = evaluate(noisy).at(arriving, Denoiser)
        return evaluate.process.arrive(noisy, answer.draw(noisy.tokens, u), s)
