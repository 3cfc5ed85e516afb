"""D3PM's hybrid: a bound plus lambda times the cross-entropy of the denoiser."""

from dataclasses import dataclass, field

from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.cross_entropy import CrossEntropy
from tokenloom.objectives.nelbo import NELBO
from tokenloom.posteriors import Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, Tokens


@OBJECTIVES.register("nelbo-ce")
@dataclass(frozen=True)
class BoundWithCrossEntropy(Objective):
    """bound + weight * cross-entropy, at the bound's own states."""

    bound: Objective = field(default_factory=NELBO)
    """The bound, by default that of the process."""
    weight: float = 0.01
    """The factor of the cross-entropy, at least 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.weight >= 0:
            raise ValueError(f"weight must not be negative, got {self.weight}")

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
