r"""Objectives: a loss per token, in nats, from a typed prediction at a noisy state.

    x_0  ->  process.corrupt  ->  network  ->  model.interpret  ->  objective

The caller corrupts, at the times that the objective asks for, and the objective only scores.  Every objective here is
local: the loss of a position depends on the prediction at that position alone.  So a batch may be cut into pieces of
any shape, which is what `head_loss.py` does to avoid the [batch, length, vocab] tensor.
Averaged over t uniform on [0, 1], the loss of a continuous-time bound is that bound.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool
from torch import Tensor

from tokenloom.posteriors import Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields
from tokenloom.types import PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class Objective(ABC):
    """A loss per token."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, process: Process, predicts: type[Posterior], hollow: bool = False) -> None:
        """Raise unless this objective can train such a network."""
        kinds = self.representations(process)
        if predicts not in kinds:
            names = " or ".join(kind.__name__ for kind in kinds) or "nothing"
            raise ValueError(
                f"{type(self).__name__} on {process.title} trains a network that predicts {names}, "
                f"got one that predicts {predicts.__name__}"
            )

    @abstractmethod
    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        """Return what a network may predict; raise where the process is not this objective's."""

    @abstractmethod
    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        """Return the loss of every position, in float64 as far as it costs nothing."""

    def times(self, t: PerRow) -> PerRow:
        """Turn uniform times into those to corrupt at: the same, unless the objective is of a grid or of none."""
        return t


def interior(noisy: Noisy) -> tuple[Noisy, Bool[Tensor, "batch 1"]]:
    """Set t and alpha to 1/2 where alpha is exactly 0 or 1, and flag the rows strictly between them.

    The ends of the integral over t count 0: at alpha = 1 every position is revealed, and alpha = 0 is one instant.
    Computing there with another level keeps infinities, and the NaN they leave in gradients, out of sight.
    """
    alpha = noisy.alpha_t.double()
    inside = (alpha > 0) & (alpha < 1)
    inner = replace(noisy, t=torch.where(inside, noisy.t.double(), 0.5), alpha_t=torch.where(inside, alpha, 0.5))
    return inner, inside[:, None]


def refuse_process(objective: Objective, process: Process, instead: str) -> ValueError:
    """Make the error for an objective of another process."""
    return ValueError(f"{type(objective).__name__} is not a bound for {process.title}; {instead}")


def refuse_causal(objective: Objective, process: Process) -> None:
    """Raise for a causal network, which has an objective of its own."""
    if process.sequential:
        raise ValueError(
            f"{type(objective).__name__} does not fit a causal network, one whose output at a position sees only what "
            "lies before it; NextToken goes with CausalTransformer"
        )


OBJECTIVES: Registry[Objective] = Registry("objective", "tokenloom.objectives", "tokenloom.objectives")
