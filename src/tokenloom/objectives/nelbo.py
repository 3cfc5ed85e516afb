"""The continuous-time bound of whatever process the network is trained under: the process names the objective."""

from dataclasses import dataclass

from tokenloom.drawing.randomness import Randomness
from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, PerRow, Tokens


@OBJECTIVES.register("nelbo")
@dataclass(frozen=True)
class NELBO(Objective):
    """The bound of the process."""

    def check(self, process: Process, predicts: type[Posterior], hollow: bool = False) -> None:
        bound_objective(process, predicts).check(process, predicts, hollow)

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        kinds: tuple[type[Posterior], ...] = (Denoiser, LeaveOneOut, Score)
        return tuple(kind for kind in kinds if kind in bound_objective(process, kind).representations(process))

    def corrupt(
        self, process: Process, x_0: Tokens, t: PerRow, generator: Randomness | None = None, given: Flags | None = None
    ) -> Noisy:
        return bound_objective(process, process.default_predicts).corrupt(process, x_0, t, generator, given)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        return bound_objective(process, type(prediction)).per_token(prediction, x_0, noisy, process)


def bound_objective(process: Process, predicts: type[Posterior]) -> Objective:
    """The objective that the process names as its bound."""
    return OBJECTIVES[process.bound(predicts)]()
