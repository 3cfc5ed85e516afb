"""The bound of a model: an integral over time and the prior term, in one object; exact for a causal network."""

from dataclasses import dataclass

from tokenloom.models.protocol import Model
from tokenloom.objectives.base import Objective
from tokenloom.objectives.nelbo import bound_objective
from tokenloom.objectives.prior_term import PriorTerm, leaves_signal
from tokenloom.posteriors import Posterior
from tokenloom.processes.base import Process


@dataclass(frozen=True)
class Bound:
    """-log p(x_0) <= the mean of `integral` over t in [0, 1] + `prior`."""

    integral: Objective
    """The loss whose mean over t is the integral."""
    prior: PriorTerm | None
    """What is paid at t = 1; None where there is nothing to pay."""

    @property
    def exact(self) -> bool:
        """Whether it is the likelihood itself, which needs no times."""
        return self.integral.exact

    @property
    def words(self) -> str:
        """The terms that a figure consists of."""
        return type(self.integral).__name__ + ("" if self.prior is None else " + prior term")

    @classmethod
    def of(cls, process: Process, predicts: type[Posterior], hollow: bool = False) -> "Bound":
        """The bound of a process from what a network predicts.

        Args:
            process: The process of the network.
            predicts: The representation that it predicts.
            hollow: Whether it provably ignores a position's own token.

        Returns:
            The bound.

        Raises:
            ValueError: If there is none.
        """
        integral = bound_objective(process, predicts)
        prior = PriorTerm() if not integral.exact and leaves_signal(process) else None
        for term in (integral, prior):
            if term is not None:
                term.check(process, predicts, hollow)
        return cls(integral, prior)

    @classmethod
    def of_model(cls, model: Model) -> "Bound":
        """The bound of a model.

        Args:
            model: A network or an oracle.

        Returns:
            The bound.

        Raises:
            ValueError: If there is none.
        """
        return cls.of(model.process, model.predicts, model.hollow)
