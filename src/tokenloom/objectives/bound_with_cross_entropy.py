"""D3PM's hybrid: bound + weight * cross-entropy of the denoiser, at the bound's own states."""

from dataclasses import dataclass, field

from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.cross_entropy import CrossEntropy
from tokenloom.objectives.nelbo import NELBO
from tokenloom.posteriors import Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.support.typed import NotNegative
from tokenloom.types import PerPosition, PerRow, Tokens


@OBJECTIVES.register("nelbo-ce")
@dataclass(frozen=True)
class BoundWithCrossEntropy(Objective):
    """A bound and a weighted cross-entropy."""

    bound: Objective = field(default_factory=NELBO)
    """The bound, by default that of the process."""
    weight: NotNegative = 0.01
    """The factor of the cross-entropy, at least 0."""

    def check(self, process: Process, predicts: type[Posterior], hollow: bool = False) -> None:
        for part in (self.bound, CrossEntropy()):
            part.check(process, predicts, hollow)

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        return self.bound.representations(process)

    def times(self, t: PerRow) -> PerRow:
        return self.bound.times(t)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        bound = self.bound.per_token(prediction, x_0, noisy, process)
        return bound + self.weight * CrossEntropy().per_token(prediction, x_0, noisy, process)
