"""The continuous-time bound of whatever process a network is trained under, and with the prior term that of a model."""

from dataclasses import dataclass, field

import torch

from tokenloom.couplings.markov import Markov
from tokenloom.models.protocol import Model
from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.continuous_time import JumpNELBO, MarkovNELBO, RateNELBO, ScoreEntropy
from tokenloom.objectives.cross_entropy import CrossEntropy, NextToken
from tokenloom.objectives.prior_term import PriorTerm, leaves_signal
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, Tokens

EPS = 1e-2
"""The eps of a bound that needs one, as a share of what is ever lost."""


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


@OBJECTIVES.register("nelbo-ce")
@dataclass(frozen=True)
class BoundWithCrossEntropy(Objective):
    """D3PM's hybrid: bound + weight * cross-entropy of the denoiser, at the bound's own states."""

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


@dataclass(frozen=True)
class Bound:
    """-log p(x_0) <= the integral of a loss over t + reconstruction + `prior`; an equality for a causal network.

    Where noise can produce a clean token, the loss of a denoiser with finite logits is (1 - mu)/t near t = 0, and its
    integral from 0 is infinite.  There it begins at 1 - alpha_t = eps, and the reconstruction -log mu_{x_0} at that
    time completes the bound: the likelihood of a chain that ends in one step from there.
    """

    integral: Objective
    """The loss whose integral it is."""
    prior: PriorTerm | None
    """The price at t = 1; None where there is none."""
    eps: float = 0.0
    """The share 1 - alpha_t of lost tokens that the integral begins with; 0 where it exists from there on."""

    @property
    def exact(self) -> bool:
        """True for the likelihood itself, which needs no times."""
        return isinstance(self.integral, NextToken)

    @property
    def words(self) -> str:
        """The terms that a figure consists of, as text."""
        end = f" from 1 - alpha = {self.eps:g} + reconstruction" if self.eps else ""
        return type(self.integral).__name__ + end + ("" if self.prior is None else " + prior term")

    @classmethod
    def of(cls, process: Process, predicts: type[Posterior], hollow: bool = False) -> "Bound":
        """Build the bound of a process, for a network that predicts this."""
        integral = NextToken() if process.sequential else continuous_bound(process, predicts)
        prior = PriorTerm() if not process.sequential and leaves_signal(process) else None
        integral.check(process, predicts, hollow)
        if prior is not None:
            prior.check(process, predicts)
        lost = 1 - float(process.alpha(torch.ones(1, dtype=torch.float64)))
        return cls(integral, prior, 0.0 if process.bounded(predicts) else EPS * lost)

    @classmethod
    def of_model(cls, model: Model) -> "Bound":
        """Build the bound of a model."""
        return cls.of(model.process, model.predicts, model.hollow)
