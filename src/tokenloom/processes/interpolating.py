"""Any noise law: a lost token at position l becomes a draw from pi^l, a table given by the user."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.noise import Noise, TableNoise
from tokenloom.processes.base import Process
from tokenloom.state import Noisy


@dataclass(frozen=True, eq=False)
class Interpolating(Process):
    """The general process of `eq:transition`; `pi` has shape [length, K]."""

    pi: Float[Tensor, "length vocab"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pi.ndim != 2 or self.pi.shape[1] != self.vocab_size or not self.pi.is_floating_point():
            raise ValueError(
                f"pi must be a float table of shape [length, {self.vocab_size}], "
                f"got {list(self.pi.shape)} of {self.pi.dtype}"
            )
        if bool((self.pi < 0).any()) or not torch.allclose(self.pi.sum(-1), torch.ones_like(self.pi[:, 0])):
            raise ValueError("every row of pi must be a distribution: entries >= 0 that sum to 1")

    def noise(self, noisy: Noisy) -> Noise:
        if noisy.tokens.shape[1] != self.pi.shape[0]:
            raise ValueError(f"pi is given for length {self.pi.shape[0]}, got tokens of length {noisy.tokens.shape[1]}")
        return TableNoise(self.pi.to(noisy.alpha_t))
