"""The continuous-time bound of whatever process the network is trained under."""

from dataclasses import dataclass

from tokenloom.couplings.markov import Markov
from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.jump_nelbo import JumpNELBO
from tokenloom.objectives.markov_nelbo import MarkovNELBO
from tokenloom.objectives.rate_nelbo import RateNELBO
from tokenloom.objectives.score_entropy import ScoreEntropy
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("nelbo")
@dataclass(frozen=True)
class NELBO(Objective):
    """The bound of the process."""

    def check(self, process: Process, predicts: type[Posterior], hollow: bool = False) -> None:
        continuous_bound(process, predicts).check(process, predicts, hollow)

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        kinds: tuple[type[Posterior], ...] = (Denoiser, LeaveOneOut, Score)
        return tuple(kind for kind in kinds if kind in continuous_bound(process, kind).representations(process))

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        return continuous_bound(process, type(prediction)).per_token(prediction, x_0, noisy, process)


def continuous_bound(process: Process, predicts: type[Posterior]) -> Objective:
    """The closed form of the bound where there is one, else the sum over all rates."""
    if predicts is Score:
        closed = process.markov and not process.lifted and (process.uniform_noise or process.masking)
        return ScoreEntropy() if closed else RateNELBO()
    if process.one_way:
        return JumpNELBO()
    return MarkovNELBO() if isinstance(process.coupling, Markov) else RateNELBO()
