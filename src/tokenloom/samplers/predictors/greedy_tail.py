r"""Any predictor, with its last step replaced by the mode.

    x_0^l = argmax of the denoiser mu^l where x_t does not tell x_0^l, else x_t^l

Removes the noise of the last draw, and with it some entropy.
"""

from dataclasses import dataclass, field
from typing import Any

from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Denoiser
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.samplers.selection import mode
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerRow


@PREDICTORS.register("greedy-tail")
@dataclass(frozen=True)
class GreedyTail(Predictor):
    """A predictor around another."""

    inner: Predictor = field(default_factory=Ancestral)
    """The predictor of all steps but the last."""

    exact = False

    def prepare(self, model: Model) -> Model:
        self.check(model)
        return self.inner.prepare(model)

    def begin(self, process: Process, noisy: Noisy, generator: Randomness | None) -> Any:
        return self.inner.begin(process, noisy, generator)

    def temperature_at(self, t: PerRow) -> PerRow:
        return self.inner.temperature_at(t)

    def corrected(self, memory: Any, changed: Flags) -> Any:
        return self.inner.corrected(memory, changed)

    def advance(
        self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None, memory: Any
    ) -> tuple[Noisy, Any]:
        if bool((s > 0).any()):
            return self.inner.advance(evaluate, noisy, s, generator, memory)
        process = evaluate.process
        local = evaluate(noisy).at(process.evidence(noisy).isfinite(), Denoiser)
        return process.move_to(noisy, local.where.put(noisy.tokens, mode(local.posterior.logits)), s), memory
