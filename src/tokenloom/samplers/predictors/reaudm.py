r"""A lifted process with its auxiliary variable redrawn after every step: the reverse chain of UDM.

    x_0 ~ p(. | x_t, aux_t),   x_s ~ q_{s|0,t}(. | x_0, x_t), the *uniform* bridge,   aux_s ~ p(. | x_0, x_s)

aux is the absorbing sequence U of AUDM (ReAUDM, `alg:reaudm-sampler`) or the transition times tau of MUDM
(`alg:mudm-flag-resampling`).  A token that x_t and aux reveal is its own x_0 (`eq:carry-over-uniform`), so only the
others are predicted.

With x_0 drawn from its joint posterior this is UDM's chain to the letter.  A network draws it position by position,
and aux_s then forgets how the positions of x_0 hang together, at every step however small: for L > 1 the limit of many
steps is close to p_0 (a total variation of about 1e-3 on small tables), not p_0.
"""

from dataclasses import dataclass, replace

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
from tokenloom.samplers.needs import LIFTED
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@PREDICTORS.register("reaudm")
@dataclass(frozen=True)
class Resampled(Predictor):
    """Resampled auxiliary variable: ReAUDM for an absorbing sequence, MUDM with resampled times."""

    serves = LIFTED
    exact = False

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        local = evaluate(noisy).at(process.evidence(noisy).isfinite(), Denoiser)
        x_0 = local.draw(noisy.tokens, u)
        x_s = process.averaged.bridge(noisy, s, x_0).draw(generator)
        return replace(process.move_to(noisy, x_s, s), aux=process.resample(x_0, x_s, s, generator))
