"""Masks: a lost token becomes the mask (MDM)."""

from dataclasses import dataclass, field

import torch

from tokenloom.noise.base import NOISES, Noise, check_mask_id
from tokenloom.noise.law import Law, PointLaw


@dataclass(frozen=True)
class WithMask(Noise):
    """A noise with a mask, a state that clean data never contains."""

    mask_id: int | None = field(default=None, kw_only=True)
    """The id of the mask: one more id, K, unless it lies inside the vocabulary, as in pretrained language models."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mask_id(self.mask_id, self.vocab_size)

    @property
    def mask(self) -> int:
        return self.vocab_size if self.mask_id is None else self.mask_id


@NOISES.register("mask")
@dataclass(frozen=True)
class Mask(WithMask):
    """w = [. = mask]."""

    def law(self) -> Law:
        return PointLaw(torch.tensor([[self.mask]]), self.num_states)
