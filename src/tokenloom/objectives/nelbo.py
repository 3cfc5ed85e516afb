"""The bound of whatever process a network is trained under, and with its other terms that of a model.

-log p(x_0) <= continuous-time bound from 1 - alpha_t = eps on + reconstruction there + prior term at t = 1
"""

from dataclasses import dataclass

import torch

from tokenloom.couplings.markov import Markov
from tokenloom.models.protocol import Model
from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.jump_nelbo import JumpNELBO
from tokenloom.objectives.markov_nelbo import MarkovNELBO
from tokenloom.objectives.next_token import NextToken
from tokenloom.objectives.prior_term import PriorTerm
from tokenloom.objectives.rate_nelbo import RateNELBO
from tokenloom.objectives.score_entropy import ScoreEntropy
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens

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
    complete: bool = True
    """False for an integral whose other terms are left out: no bound."""

    @property
    def exact(self) -> bool:
        """True for the likelihood itself, which needs no times."""
        return isinstance(self.integral, NextToken)

    @property
    def words(self) -> str:
        """The terms that a figure consists of, as text."""
        end = f" from 1 - alpha = {self.eps:g}" if self.eps else ""
        if not self.complete:
            return f"{type(self.integral).__name__}{end} on, truncated: not a bound"
        end += " + reconstruction" if self.eps else ""
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

    def truncated(self, t: float, process: Process) -> "Bound":
        """Return the integral over times from t on alone, the figure that papers report."""
        if self.exact:
            raise ValueError("a causal model has an exact likelihood without an integral; leave out truncated_at")
        check_truncation(t)
        share = 1 - process.masses.alpha(torch.tensor([t], dtype=torch.float64))
        return Bound(self.integral, None, float(share), complete=False)

    @classmethod
    def of_model(cls, model: Model) -> "Bound":
        """Build the bound of a model."""
        return cls.of(model.process, model.predicts, model.hollow)


def check_truncation(t: float) -> None:
    """Raise unless an integral may begin at this time."""
    if not 0 < t < 1:
        raise ValueError(f"truncated_at must be a time in (0, 1), as in 0.001, got {t:g}")
