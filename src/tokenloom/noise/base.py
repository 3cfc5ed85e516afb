r"""The law of a lost token.

A noise is a value: K and its options.  One that stands still says `law`, and everything else follows from it.  One that
moves with t overrides `masses` as well (`hybrid.py`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tokenloom.noise.law import Law
from tokenloom.noise.masses import Masses, StillMasses
from tokenloom.schedules import Schedule
from tokenloom.support.memory import check_memory
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields


@dataclass(frozen=True)
class Noise(ABC):
    """A law of lost tokens over a vocabulary of K real tokens 0..K-1."""

    vocab_size: int
    """K, the number of real tokens; a mask outside the vocabulary is not counted."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.vocab_size < 2:
            raise ValueError(f"a process needs a vocabulary of at least 2 tokens, got {self.vocab_size!r}")
        check_memory(8 * self.vocab_size, f"a vocabulary of {self.vocab_size} tokens", "use a smaller one")

    @abstractmethod
    def law(self) -> Law:
        """Return the law w of a lost token, for one row: of one position, or of each."""

    def masses(self, schedule: Schedule) -> Masses:
        """Return the noise mass under a schedule, which a noise that moves with t gives itself."""
        fixed = self.law()
        return StillMasses(fixed, schedule, fixed.support(self.vocab_size, self.mask))

    @property
    def mask(self) -> int | None:
        """The id that marks a lost token and is never a clean one, where there is one."""
        return None

    @property
    def num_states(self) -> int:
        """The number of ids a position can take: K, or K + 1 with a mask outside the vocabulary."""
        return self.vocab_size if self.mask is None else max(self.vocab_size, self.mask + 1)


def check_mask_id(mask_id: int | None, vocab_size: int) -> None:
    """Raise unless a mask lies inside the vocabulary or is the one id after it."""
    if mask_id is not None and not 0 <= mask_id <= vocab_size:
        inside = f"0..{vocab_size - 1} (inside the vocabulary)"
        raise ValueError(f"mask_id must be in {inside} or {vocab_size} (one id more), got {mask_id}")


NOISES: Registry[Noise] = Registry("noise", "tokenloom.noises", "tokenloom.noise")
