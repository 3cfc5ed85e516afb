r"""Masked uniform diffusion: a chain with UDM's marginals driven by an unmodified *masked* network.

With tau fixed: x_s = x_0 where s < tau <= t, else x_t.  With tau redrawn (`alg:mudm-flag-resampling`)

    x_0 ~ p(. | x~_t(tau_t)),   x_s ~ q_{s|0,t}(. | x_0, x_t), the *uniform* bridge,   tau_s ~ p(. | x_0, x_s)

is the reverse chain of UDM, for L > 1 up to what the redrawn tau forgets of the joint law of x_0 (as in `reaudm.py`);
with tau fixed the limit of many steps is p_0.  Only tokens already lost (tau <= t) are predicted; with tau fixed, only
those that arrive.
"""

from dataclasses import dataclass

from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
from tokenloom.samplers.needs import TRANSITION_TIMES
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.samplers.predictors.reaudm import Resampled
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@PREDICTORS.register("mudm")
@dataclass(frozen=True)
class MUDM(Predictor):
    """Transition times on top of a masked network."""

    resample: bool = False
    """Redraw tau after every step."""

    serves = TRANSITION_TIMES
    exact_unless = "resample=true"

    def prepare(self, model: Model) -> Model:
        self.check(model)
        process = model.process.with_transition_times()
        assert process is not None
        return model if process is model.process else model.with_process(process)

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        return (Resampled() if self.resample else Ancestral()).step(evaluate, noisy, s, generator)
