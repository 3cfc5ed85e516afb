"""Masked diffusion (MDM): a lost token becomes the mask, pi = [. = mask] (`eq:mdm-bridge`)."""

from dataclasses import dataclass

import torch

from tokenloom.forward import evidence_of
from tokenloom.noise import Noise, PointNoise
from tokenloom.processes.mask import HasMask
from tokenloom.state import Noisy
from tokenloom.types import PerPosition


@dataclass(frozen=True)
class Masked(HasMask):
    """MDM on K tokens and the mask."""

    @property
    def num_states(self) -> int:
        return max(self.vocab_size, self.mask + 1)

    def noise(self, noisy: Noisy) -> Noise:
        return PointNoise(torch.full_like(noisy.tokens, self.mask), self.num_states, noisy.alpha_t.dtype)

    def evidence(self, noisy: Noisy) -> PerPosition:
        """A mask says nothing, a visible token everything."""
        return evidence_of(noisy.tokens != self.mask, noisy)
