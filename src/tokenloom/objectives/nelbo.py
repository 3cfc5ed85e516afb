"""The bound of whatever process a network is trained under, and with its other terms that of a model.

-log p(x_0) <= continuous-time bound from 1 - alpha_t = eps on + reconstruction there + prior term at t = 1
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from tokenloom.couplings.markov import Markov
from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.continuous_time import JumpNELBO, MarkovNELBO, RateNELBO, ScoreEntropy
from tokenloom.objectives.cross_entropy import CrossEntropy, NextToken
from tokenloom.objectives.finite_step import divergence_of_step
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.support.typed import NotNegative
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

EPS = 1e-2
"""The eps of a bound that needs one, as a share of what is ever lost."""


@OBJECTIVES.register("nelbo")
@dataclass(frozen=True)
class NELBO(Objective):
    """The bound of the process."""

    def check(self, process: Process, predicts: type[Posterior], hollow: bool = False) -> None:
        continuous_bound(process, predicts).check(process, predicts, hollow)

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        over_tokens = continuous_bound(process, Denoiser).representations(process)
        return (Denoiser, LeaveOneOut, Score) if process.has_jump_rates else over_tokens

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


@dataclass(frozen=True)
class PriorTerm:
    """The price per token that a bound pays for the signal left at t = 1 (`schedules.py` says why).

    nothing is shown, and every token may be noise:   KL(q_{1|0} || w), which needs no network: with q = alpha_1 +
                                                      m_1(x_0), q log(q / w(x_0)) + (1 - q) log(1 - alpha_1)
    else (MDM, AUDM, MUDM, tables with zeros):        the divergence of one step, from the prior at alpha = 0 to alpha_1

    Add its mean to the mean of a continuous-time bound; both are 0 if alpha_1 = 0.  It is not a training objective: the
    first form has no gradient, and the second looks at t = 1 alone.
    """

    name: ClassVar[str] = "prior-term"

    def check(self, process: Process, predicts: type[Posterior]) -> None:
        """Raise where the term needs a network and cannot be computed from what it predicts."""
        if predicts is Score and not needs_no_network(process):
            raise ValueError(
                f"the prior term of {process.title} needs a network that predicts a Denoiser or a LeaveOneOut, got one "
                "that predicts a Score; use a schedule that leaves no signal at t = 1, as LinearSchedule(eps=0)"
            )

    def state(self, process: Process, x_0: Tokens, generator: Randomness | None, given: Flags | None) -> Noisy:
        """Draw the prior, at level 0: nothing of x_0 except its given positions."""
        state = process.prior(len(x_0), x_0.shape[1], generator, x_0.device)
        tokens = state.tokens if given is None else torch.where(given, x_0, state.tokens)
        return replace(state, tokens=tokens, given=given, alpha_t=torch.zeros_like(state.alpha_t))

    def closed_form(self, x_0: Tokens, process: Process, given: Flags | None) -> PerPosition:
        """Return the first form above."""
        one = torch.ones(len(x_0), device=x_0.device, dtype=torch.float64)
        at_end = Noisy(x_0, one, process.alpha(one))
        alpha, w = at_end.alpha_t[:, None], process.masses.law(at_end, one).probability_of(x_0)
        same = alpha + (1 - alpha) * w
        price = same * torch.log1p(alpha * (1 - w) / w) + (1 - same) * torch.log1p(-alpha)
        return price if given is None else price.masked_fill(given, 0)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        """Return the second form above, at a state that `state` made."""
        end = torch.ones_like(noisy.t)
        if isinstance(noisy.aux, torch.Tensor) and noisy.aux.is_floating_point():
            start = noisy  # which tokens are lost is known, and all are
        else:
            start = replace(noisy, t=process.time_at(noisy.alpha_t))  # level 0 lies after t = 1
        return divergence_of_step(prediction, x_0, start, end, process)


def needs_no_network(process: Process) -> bool:
    """Return whether the price of the prior follows from the noise alone."""
    return not process.lifted and not process.masses.support.never


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
        integral.check(process, predicts, hollow)
        left = float(process.alpha(torch.ones(1, dtype=torch.float64)))
        prior = PriorTerm() if left > 0 and not process.sequential else None
        if prior is not None:
            prior.check(process, predicts)
        return cls(integral, prior, 0.0 if process.bounded(predicts) else EPS * (1 - left))

    @classmethod
    def of_model(cls, model: Model) -> "Bound":
        """Build the bound of a model."""
        return cls.of(model.process, model.predicts, model.hollow)
