"""The bound of a model: an integral over time and the prior term, in one object; exact for a causal network."""

from dataclasses import dataclass

from tokenloom.models.protocol import Model
from tokenloom.objectives.base import Objective
from tokenloom.objectives.nelbo import continuous_bound
from tokenloom.objectives.next_token import NextToken
from tokenloom.objectives.prior_term import PriorTerm, leaves_signal
from tokenloom.posteriors import Posterior
from tokenloom.process import Process


@dataclass(frozen=True)
class Bound:
    """-log p(x_0) <= the mean of `integral` over t in [0, 1] + `prior`."""

    integral: Objective
    """The loss whose mean over t is the integral."""
    prior: PriorTerm | None
    """The price at t = 1; None where there is none."""
    bounded: bool = True
    """True if the integral exists for finite logits."""

    @property
    def exact(self) -> bool:
        """True for the likelihood itself, which needs no times."""
        return isinstance(self.integral, NextToken)

    @property
    def words(self) -> str:
        """The terms that a figure consists of, as text."""
        diverges = "" if self.bounded else " (infinite for finite logits: an estimate, not a bound)"
        return type(self.integral).__name__ + diverges + ("" if self.prior is None else " + prior term")

    @classmethod
    def of(cls, process: Process, predicts: type[Posterior], hollow: bool = False) -> "Bound":
        """Build the bound of a process, for a network that predicts this."""
        integral = NextToken() if process.sequential else continuous_bound(process, predicts)
        prior = PriorTerm() if not process.sequential and leaves_signal(process) else None
        integral.check(process, predicts, hollow)
        if prior is not None:
            prior.check(process, predicts)
        return cls(integral, prior, process.bounded(predicts))

    @classmethod
    def of_model(cls, model: Model) -> "Bound":
        """Build the bound of a model."""
        return cls.of(model.process, model.predicts, model.hollow)
