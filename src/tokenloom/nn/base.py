"""What a registered network is: buildable from its config alone, so that it can be trained and saved by name.

A network class registers with `NETWORKS.register`, takes its `Config` (and keyword tensors, its `constants`), and says
in `Options` what a user may choose; what the data and the process settle comes as a `Task`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from jaxtyping import Bool
from torch import Tensor, nn

from tokenloom.support.registry import Registry


@dataclass(frozen=True)
class Task:
    """What a network must read and put out."""

    num_outputs: int
    """Logits per position."""
    num_states: int
    """Ids it may be shown."""
    length: int
    """Positions of the longest sequence."""
    absorbing: bool = False
    """Whether it reads the absorbing sequence U."""
    given: bool = False
    """Whether it is shown which positions are given."""
    relations: Bool[Tensor, "kinds length length"] | None = None
    """Which positions of the data are related, where they form a grid."""
    data: str = "this data"
    """What messages call the data."""


@dataclass(frozen=True)
class NetworkOptions(ABC):
    """What a user chooses of a network, beside its kind."""

    kind: str
    """The network: its name in the registry."""

    @abstractmethod
    def build(self, task: Task) -> nn.Module:
        """A fresh network for a task."""


class Network(nn.Module):
    """A network that the registry can save: its `config` and its `constants` are all that its constructor takes.

    Args:
        config: Its options, an instance of `Config`.
    """

    Config: ClassVar[type[Any]]
    Options: ClassVar[type[NetworkOptions]]
    name: ClassVar[str]

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def constants(self) -> dict[str, Tensor]:
        """Tensors that the constructor takes beside the config and that are not trained."""
        return {}


NETWORKS: Registry[Network] = Registry("network", "tokenloom.networks", "tokenloom.nn")
