r"""The forward-backward corrector (Campbell et al.): noise a little, denoise the same way back.

    x_{t'} ~ q_{t'|t}(. | x_t) with alpha_{t'} = (1 - amount) alpha_t,   then x_t ~ p(. | x_{t'}), an ancestral step

Both halves carry p_t to p_{t'} and back, so p_t is invariant up to the factorisation of the backward step.  That error
does not vanish with more steps of the sampler at a fixed `amount`, only with `amount`: for a small one it is a step of
the chain with rates forward + reverse.  It looks at nothing to decide what to redo.
"""

from dataclasses import dataclass

from tokenloom.couplings.steps import forward
from tokenloom.drawing.randomness import Randomness
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import CORRECTORS, Corrector
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.support.typed import Count, OpenUnitInterval


@CORRECTORS.register("forward-backward")
@dataclass(frozen=True)
class ForwardBackward(Corrector):
    """Noise the state by `amount`, then denoise it back to its time."""

    steps: Count = 1
    """Corrector steps after each predictor step."""
    amount: OpenUnitInterval = 0.05
    """The share of the signal that is lost and regained."""

    needs = "a Markov process without an auxiliary variable"
    exact = False

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.markov and not process.lifted

    @property
    def evaluations(self) -> int:
        return self.steps

    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        process = evaluate.process
        later = process.time_at((1 - self.amount) * noisy.alpha_t).clamp(max=1)
        for _ in range(self.steps):
            noised = process.move_to(noisy, forward(process, noisy, later).draw(generator), later)
            noisy = Ancestral().step(evaluate, noised, noisy.t, generator)
        return noisy
