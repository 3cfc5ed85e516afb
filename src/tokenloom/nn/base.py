"""Registered networks, which are built from their config alone, so that they can be trained and saved by name.

A network class registers with `NETWORKS.register`, takes its `Config` (and keyword tensors, its `constants`), and says
in `Options` what a user may choose; what the data and the process settle comes as a `Task`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenloom.support.registry import Registry

Hidden = Float[Tensor, "batch length width"]
Relations = Bool[Tensor, "kinds length length"]  # flags of related positions, one table for each kind of relation


@dataclass(frozen=True)
class Task:
    """The inputs and outputs of a network, as the data and the process settle them."""

    num_outputs: int
    """Logits per position."""
    num_states: int
    """Number of ids in the input."""
    length: int
    """The longest sequence."""
    absorbing: bool = False
    """Read the absorbing sequence U."""
    given: bool = False
    """Read flags of the given positions."""
    relations: Relations | None = None
    """Flags of related positions, where the data form a grid."""
    data: str = "this data"
    """The name of the data in messages."""


@dataclass(frozen=True)
class NetworkOptions(ABC):
    """The options of a network that a user may choose."""

    kind: str
    """The network: its name in the registry."""

    @abstractmethod
    def build(self, task: Task) -> nn.Module:
        """Build a fresh network for a task."""


class Network(nn.Module):
    """A network that the registry can save: its `config` and its `constants` are all that its constructor takes.

    A subclass computes its logits in `forward`, or splits itself into a method `features` and a module `head`.
    """

    Config: ClassVar[type[Any]]
    Options: ClassVar[type[NetworkOptions]]
    name: ClassVar[str]
    features: Callable[..., Tensor]
    head: nn.Module

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def constants(self) -> dict[str, Tensor]:
        """Return the tensors that the constructor takes beside the config and that are not trained."""
        return {}

    def forward(self, *inputs: Tensor | None, features_only: bool = False, **conditions: Tensor | None) -> Tensor:
        """Compute the logits of every position, or the features alone."""
        features = self.features(*inputs, **conditions)
        logits: Tensor = features if features_only else self.head(features)
        return logits


NETWORKS: Registry[Network] = Registry("network", "tokenloom.networks", "tokenloom.nn")
