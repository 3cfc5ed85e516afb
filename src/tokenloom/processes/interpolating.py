"""Any noise law: a lost token at position l becomes a draw from pi^l, a table given by the user."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.processes.base import PROCESSES, Process
from tokenloom.processes.noise import Noise, TableNoise
from tokenloom.state import Noisy


@PROCESSES.register("interpolating")
@dataclass(frozen=True, eq=False)
class Interpolating(Process):
    """The general process of `eq:transition`.

    Raises:
        ValueError: If `pi` is not a table of distributions over K tokens.
    """

    pi: Float[Tensor, "length vocab"]
    """What a lost token becomes, [length, K]: one law per position, whose entries sum to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pi.ndim != 2 or self.pi.shape[1] != self.vocab_size or not self.pi.is_floating_point():
            raise ValueError(
                f"pi must be a float table of shape [length, {self.vocab_size}], "
                f"got {list(self.pi.shape)} of {self.pi.dtype}"
            )
        if bool((self.pi < 0).any()) or not torch.allclose(self.pi.sum(-1), torch.ones_like(self.pi[:, 0])):
            raise ValueError("every row of pi must be a distribution: entries >= 0 that sum to 1")

    def __eq__(self, other: object) -> bool:
        """The same vocabulary, schedule and table; a dataclass would ask a tensor for its truth."""
        return isinstance(other, Interpolating) and super().__eq__(other) and torch.equal(self.pi, other.pi)

    __hash__ = Process.__hash__

    @property
    def reveals(self) -> bool:
        """A token that is never noise tells x_0."""
        return bool((self.pi == 0).any())

    def noise(self, noisy: Noisy) -> Noise:
        if noisy.place is not None:
            return TableNoise(self.pi.to(noisy.alpha_t)[noisy.place])
        if noisy.tokens.shape[1] != self.pi.shape[0]:
            raise ValueError(f"pi is given for length {self.pi.shape[0]}, got tokens of length {noisy.tokens.shape[1]}")
        return TableNoise(self.pi.to(noisy.alpha_t).unsqueeze(0))
