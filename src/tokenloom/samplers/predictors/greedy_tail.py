r"""Any predictor, with its last step replaced by the mode:

    x_0^l = argmax of the denoiser mu^l where x_t does not tell x_0^l, else x_t^l

Removes the noise of the last draw, and with it some entropy.
"""

from dataclasses import dataclass, field

import torch

from tokenloom.posteriors import Denoiser
from tokenloom.processes import AbsorbingUniform, Masked, MaskedUniform, MaxCoupling, Process, Uniform
from tokenloom.randomness import Randomness
from tokenloom.samplers.evaluator import Evaluator, Model
from tokenloom.samplers.kernel import Predictor, register
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@register("greedy-tail")
@dataclass(frozen=True)
class GreedyTail(Predictor):
    """A predictor around another."""

    inner: Predictor = field(default_factory=Ancestral)

    serves = (Uniform, Masked, MaxCoupling, AbsorbingUniform, MaskedUniform)
    exact = False

    def prepare(self, model: Model) -> Model:
        self.check(model)
        return self.inner.prepare(model)

    def initial(
        self, process: Process, batch: int, length: int, generator: Randomness | None, device: torch.device
    ) -> Noisy:
        return self.inner.initial(process, batch, length, generator, device)

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        if bool((s > 0).any()):
            return self.inner.step(evaluate, noisy, s, generator)
        process = evaluate.process
        answer = evaluate(noisy).at(process.evidence(noisy).isfinite(), Denoiser)
        return process.arrive(noisy, answer.scatter(noisy.tokens, answer.posterior.logits.argmax(-1)), s)
