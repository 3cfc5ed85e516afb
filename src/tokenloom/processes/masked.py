"""Masked diffusion (MDM): a lost token becomes the mask, pi = [. = mask] (`eq:mdm-bridge`)."""

from dataclasses import dataclass

import torch

from tokenloom.posteriors import Denoiser, Posterior, Score
from tokenloom.processes.base import PROCESSES
from tokenloom.processes.forward import evidence_of
from tokenloom.processes.mask import HasMask
from tokenloom.processes.noise import Noise, PointNoise
from tokenloom.processes.transition_times import MaskedUniform
from tokenloom.state import Noisy
from tokenloom.types import PerPosition


@PROCESSES.register("masked")
@dataclass(frozen=True)
class Masked(HasMask):
    """MDM on K tokens and the mask."""

    method = "mdm"
    default_predicts = Denoiser
    bridge_takes = (Denoiser,)
    masking = mask_states = point_noise = one_way = all_or_nothing = True

    @property
    def num_states(self) -> int:
        return max(self.vocab_size, self.mask + 1)

    @property
    def reveals(self) -> bool:
        return True

    def with_transition_times(self) -> MaskedUniform:
        return MaskedUniform(self.vocab_size, schedule=self.schedule, mask_id=self.mask_id)

    def noise(self, noisy: Noisy) -> Noise:
        return PointNoise(torch.full_like(noisy.tokens, self.mask), self.num_states, noisy.alpha_t.dtype)

    def evidence(self, noisy: Noisy) -> PerPosition:
        """A mask says nothing, a visible token everything."""
        return evidence_of(noisy.tokens != self.mask, noisy)

    def bound(self, predicts: type[Posterior]) -> str:
        return "score-entropy" if predicts is Score else "jump-nelbo"
