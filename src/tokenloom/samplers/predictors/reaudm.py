r"""A lifted process with its auxiliary variable redrawn after every step: the reverse Markov chain of the same noise.

    x_0 ~ p(. | x_t, aux_t),   x_s ~ q_{s|0,t}(. | x_0, x_t), the *Markov* bridge,   aux_s ~ p(. | x_0, x_s)

aux is the absorbing sequence U of AUDM (ReAUDM, `alg:reaudm-sampler`) or the transition times tau of MUDM
(`alg:mudm-flag-resampling`).  A token that x_t and aux reveal is its own x_0 (`eq:carry-over-uniform`), so only the
others are predicted.

With x_0 drawn from its joint posterior this is that chain to the letter, for every noise.  A network draws it position
by position, and aux_s then forgets how the positions of x_0 hang together, at every step however small: for L > 1 the
limit of many steps is close to p_0 (a total variation of about 3e-3 on small tables), not p_0.
"""

from dataclasses import dataclass, replace

from tokenloom.couplings.markov import Markov
from tokenloom.couplings.steps import bridge
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@PREDICTORS.register("reaudm")
@dataclass(frozen=True)
class Resampled(Predictor):
    """Resampled auxiliary variable: ReAUDM for an absorbing sequence, MUDM with resampled times."""

    needs = "a process with an auxiliary variable"
    exact = False  # redrawing aux position by position forgets how the positions of x_0 depend on each other

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.lifted

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        local = evaluate(noisy).at(process.evidence(noisy).isfinite(), Denoiser)
        x_0 = local.draw(noisy.tokens, u)
        renewing = process.with_coupling(Markov())
        x_s = process.move_to(noisy, bridge(renewing, noisy, s, x_0).draw(generator), s)
        return replace(x_s, aux=process.resampled(x_0, x_s, generator))
