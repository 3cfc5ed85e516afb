r"""DNDM (Chen et al.): transition times with a *plain* denoiser, which does not see them.

    tau^l with P(tau < t) = 1 - alpha_t, drawn once;   x_s^l ~ mu^l(x_t) where s < tau^l <= t, else x_t^l

The network is asked only when a transition falls into the step.  Given tau the exact posterior is a masked model's
(`lem:mudm-denoiser-equivalence`), not mu: use `mudm` for a chain that ends in p_0.

The times are the sampler's own memory.  A corrector beside it may change any token; a token it changes before its time
has come is replaced when it comes, and one it changes afterwards stays, even as noise that the truncation forbids.
"""

from dataclasses import dataclass

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor, UniformOnly
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow


@PREDICTORS.register("dndm")
@dataclass(frozen=True)
class DNDM(UniformOnly, Predictor):
    """Transition times that are drawn once."""

    exact = False

    def begin(self, process: Process, noisy: Noisy, generator: Randomness | None) -> PerPosition:
        """Draw times up to the state's own: what has not come by then comes below."""
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        alpha = noisy.alpha_t[:, None]
        return process.time_at(alpha + (1 - alpha) * u).minimum(noisy.t[:, None])

    def advance(
        self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None, memory: PerPosition
    ) -> tuple[Noisy, PerPosition]:
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        arriving = noisy.free & (memory > s[:, None]) & (memory <= noisy.t[:, None])
        local = evaluate(noisy).at(arriving, Denoiser)
        return evaluate.process.move_to(noisy, local.draw(noisy.tokens, u), s), memory
