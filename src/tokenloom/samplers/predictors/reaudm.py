r"""AUDM with its absorbing sequence redrawn (ReAUDM, `alg:reaudm-sampler`): the reverse chain of UDM.

    x_0 ~ p(. | x_t, U_t),   x_s ~ q_{s|0,t}(. | x_0, x_t), the *uniform* bridge,   U_s ~ p(. | x_0, x_s)

A token other than U_t is its own x_0 (`eq:carry-over-uniform`), so only the others are predicted.

With x_0 drawn from its joint posterior this is UDM's chain to the letter.  A network draws it position by position, and
U_s then forgets how the positions of x_0 hang together, at every step however small: for L > 1 the limit of many steps
is close to p_0 (a total variation of about 1e-3 on small tables), not p_0.
"""

from dataclasses import dataclass, replace

from tokenloom.posteriors import Denoiser
from tokenloom.processes import AbsorbingUniform
from tokenloom.randomness import Randomness, uniform
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import Predictor, free, register
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@register("reaudm")
@dataclass(frozen=True)
class ReAUDM(Predictor):
    """Resampled absorbing sequence."""

    serves = (AbsorbingUniform,)
    exact = False

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        assert isinstance(process, AbsorbingUniform)
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        answer = evaluate(noisy).at(free(noisy) & (noisy.tokens == noisy.aux), Denoiser)
        x_0 = answer.draw(noisy.tokens, u)
        x_s = process.uniform.bridge(noisy, s, x_0).draw(generator)
        absorbing = process.resampling_law(x_0, x_s, s).draw(generator)
        return replace(process.arrive(noisy, x_s, s), aux=absorbing)
