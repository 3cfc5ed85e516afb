"""The mask token, shared by the processes that show one to their network."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tokenloom.processes.base import Process
from tokenloom.types import Logits


@dataclass(frozen=True)
class HasMask(Process):
    """A process with a mask.  A prediction ranges over 0..K-1 and never puts mass on the mask; clean data never
    contains it.

    Raises:
        ValueError: If `mask_id` is outside 0..K.
    """

    mask_id: int | None = field(default=None, kw_only=True)
    """The id of the mask: one more id, K, unless it lies inside the vocabulary, as in pretrained language models."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mask_id is not None and not 0 <= self.mask_id <= self.vocab_size:
            raise ValueError(
                f"mask_id must be in 0..{self.vocab_size - 1} (inside the vocabulary) or {self.vocab_size} "
                f"(one id more), got {self.mask_id}"
            )

    @property
    def mask(self) -> int:
        """The id of the mask."""
        return self.vocab_size if self.mask_id is None else self.mask_id

    @property
    def mask_in_vocabulary(self) -> int | None:
        return self.mask if self.mask < self.vocab_size else None

    def restrict(self, logits: Logits) -> Logits:
        if self.mask_in_vocabulary is None:
            return logits
        nothing = torch.full_like(logits[..., :1], -torch.inf)
        return torch.cat([logits[..., : self.mask], nothing, logits[..., self.mask + 1 :]], -1)

    def over_states(self, log_probs: Logits) -> Tensor:
        return torch.nn.functional.pad(log_probs, (0, self.num_states - self.vocab_size), value=-torch.inf)
