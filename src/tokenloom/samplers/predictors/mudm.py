r"""An unmodified *masked* network drives a chain with the marginals of any other noise.

    tau fixed     x_s = x_0 where s < tau <= t, else x_t: the limit of many steps is p_0
    tau redrawn   after every step, with the Markov bridge (`alg:mudm-flag-resampling`, `reaudm.py`): the reverse chain
                  of UDM (or of GIDD, with hybrid noise), for L > 1 up to what tau forgets of the joint law of x_0

Only tokens already lost (tau <= t) are predicted; with tau fixed, only those that arrive.
"""

from dataclasses import dataclass

from tokenloom.couplings.transition_times import TransitionTimes
from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.noise import NOISES, MaskAndUniform
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
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
    noise: str = "uniform"
    """The noise that a masked model's lost tokens show, by its registered name; `hybrid` needs `resample`."""

    needs = "a masked process or one with transition times"

    def __post_init__(self) -> None:
        super().__post_init__()
        if issubclass(NOISES[self.noise], MaskAndUniform) and not self.resample:
            raise ValueError(
                f"{self.noise} noise has no chain with its times fixed; use mudm:resample=true,noise={self.noise}"
            )

    @property
    def exact(self) -> bool:
        return not self.resample

    @classmethod
    def supports(cls, process: Process) -> bool:
        return isinstance(process.coupling, TransitionTimes) or process.masking

    def prepare(self, model: Model) -> Model:
        self.check(model)
        process = model.process
        if isinstance(process.coupling, TransitionTimes):
            if not self.resample and not process.has_bridge:
                raise ValueError(f"{process.title} has no chain with its times fixed; use mudm:resample=true")
            return model
        mask = process.mask_in_vocabulary
        options = {} if mask is None or not issubclass(NOISES[self.noise], MaskAndUniform) else {"mask_id": mask}
        noise = NOISES.parse(self.noise, vocab_size=process.vocab_size, **options)
        return model.with_process(Process(noise, TransitionTimes(mask), process.schedule))

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        return (Resampled() if self.resample else Ancestral()).step(evaluate, noisy, s, generator)
