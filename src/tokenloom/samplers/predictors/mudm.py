r"""Masked uniform diffusion: a chain with UDM's marginals driven by a *masked* network as it is.

With tau fixed: x_s = x_0 where s < tau <= t, else x_t.  With tau redrawn (`alg:mudm-flag-resampling`)

    x_0 ~ p(. | x~_t(tau_t)),   x_s ~ q_{s|0,t}(. | x_0, x_t), the *uniform* bridge,   tau_s ~ p(. | x_0, x_s)

is the reverse chain of UDM, for L > 1 up to what the redrawn tau forgets of the joint law of x_0 (as in `reaudm.py`);
with tau fixed the limit of many steps is p_0.  Only tokens already lost (tau <= t) are predicted; with tau fixed, only
those that arrive.
"""

from dataclasses import dataclass, replace

from tokenloom.posteriors import Denoiser
from tokenloom.processes import Masked, MaskedUniform
from tokenloom.randomness import Randomness, uniform
from tokenloom.samplers.evaluator import Evaluator, Model
from tokenloom.samplers.kernel import Predictor, register
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@register("mudm")
@dataclass(frozen=True)
class MUDM(Predictor):
    """Transition times on top of a masked network."""

    resample: bool = False
    """Redraw tau after every step."""

    serves = (Masked, MaskedUniform)
    exact_unless = "resample=true"

    def prepare(self, model: Model) -> Model:
        self.check(model)
        process = model.process
        if isinstance(process, MaskedUniform):
            return model
        assert isinstance(process, Masked)
        return model.with_process(MaskedUniform(process.vocab_size, schedule=process.schedule, mask_id=process.mask_id))

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        assert isinstance(process, MaskedUniform)
        if not self.resample:
            return Ancestral().step(evaluate, noisy, s, generator)
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        answer = evaluate(noisy).at(process.lost(noisy), Denoiser)
        x_0 = answer.draw(noisy.tokens, u)
        x_s = process.uniform.bridge(noisy, s, x_0).draw(generator)
        return replace(process.arrive(noisy, x_s, s), aux=process.resample_times(x_0, x_s, s, generator))
