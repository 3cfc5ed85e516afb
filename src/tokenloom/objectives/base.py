r"""What a network is trained to minimise: a loss per token, in nats, from a typed prediction at a noisy state.

Every objective here is local: the loss of a position depends on the network's output at that position alone.  So a
batch may be cut into pieces of any shape, which is what `head_loss.py` does to avoid the [batch, length, vocab] tensor.
Averaged over t uniform on [0, 1], the loss of a continuous-time bound is that bound.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tokenloom.drawing.randomness import Randomness
from tokenloom.posteriors import Posterior
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

Alpha = Float[Tensor, "batch 1"]
Inside = Bool[Tensor, "batch 1"]


@dataclass(frozen=True)
class Objective(ABC):
    """A loss per token.

    Raises:
        ValueError: If an option has a wrong type or lies outside its range.
    """

    name: ClassVar[str]
    sequential: ClassVar[bool] = False
    """Whether it is for a causal network."""
    exact: ClassVar[bool] = False
    """Whether its sum is a likelihood itself, with no integral over time and no prior term."""

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, process: Process, predicts: type[Posterior], hollow: bool = False) -> None:
        """Raise a sentence unless this objective can train such a network.

        Args:
            process: The process of the training.
            predicts: The representation that the network predicts.
            hollow: Whether the network provably ignores a position's own token.

        Raises:
            ValueError: If it cannot train such a network under this process.
        """
        if process.sequential != self.sequential:
            raise ValueError(
                f"{type(self).__name__} {'needs' if self.sequential else 'does not fit'} a causal network, "
                f"one whose output at a position sees only what lies before it; NextToken goes with CausalTransformer"
            )
        if predicts not in self.representations(process):
            names = " or ".join(kind.__name__ for kind in self.representations(process)) or "nothing"
            raise ValueError(
                f"{type(self).__name__} on {type(process).__name__} trains a network that predicts {names}, "
                f"got one that predicts {predicts.__name__}"
            )

    @abstractmethod
    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        """What a network may predict; an error that says why where the process is not this objective's.

        Args:
            process: The process of the training.

        Returns:
            The representations that a network may predict.

        Raises:
            ValueError: If the process is not one of this objective's.
        """

    @abstractmethod
    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        """The loss of every position, in float64 as far as it costs nothing.

        Args:
            prediction: The network's prediction at `noisy`.
            x_0: Clean tokens.
            noisy: The state that `corrupt` made of them.
            process: The process of the training.

        Returns:
            Nats.
        """

    def without_network(self, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition | None:
        """The loss of every position where it does not depend on a prediction; None where it does.

        Args:
            x_0: Clean tokens.
            noisy: The state that `corrupt` made of them.
            process: The process of the training.

        Returns:
            Nats, or None.
        """
        return None

    def corrupt(
        self, process: Process, x_0: Tokens, t: PerRow, generator: Randomness | None = None, given: Flags | None = None
    ) -> Noisy:
        """The state to predict from.

        Args:
            process: The process of the training.
            x_0: Clean tokens.
            t: The time of each row, in [0, 1].
            generator: Where random numbers come from; PyTorch's global generator if None.
            given: Flags of the positions that stay clean.

        Returns:
            The noisy state.

        Raises:
            ValueError: If tokens, times or flags do not fit the process or each other.
        """
        return process.corrupt(x_0, t, generator, given)


def interior(noisy: Noisy) -> tuple[Alpha, Inside]:
    """alpha, with 1/2 in the place of exactly 0 and 1, and flags of the rows strictly between them.

    The ends of the integral over t count 0: at alpha = 1 every position is revealed, and alpha = 0 is one instant.
    Computing there with another level keeps infinities, and the NaN they leave in gradients, out of sight.
    """
    alpha = noisy.alpha_t.double()[:, None]
    inside = (alpha > 0) & (alpha < 1)
    return torch.where(inside, alpha, 0.5), inside


def refuse_process(objective: Objective, process: Process, instead: str) -> ValueError:
    """The sentence for an objective of another process."""
    return ValueError(f"{type(objective).__name__} is not a bound for {type(process).__name__}; {instead}")


OBJECTIVES: Registry[Objective] = Registry("objective", "tokenloom.objectives", "tokenloom.objectives")
