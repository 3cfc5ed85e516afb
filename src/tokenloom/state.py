"""A partly noised batch, as steps rewrite it and as a network reads it."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from tokenloom.types import Auxiliary, Flags, PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class NetworkInput:
    """A state as a network reads it."""

    tokens: Tokens
    """Ids of the noisy sequence; where a network sees masks, with the mask."""
    time: PerRow
    """The time t of each row."""
    alpha: PerRow
    """The signal alpha_t that is left in each row."""
    absorbing: Tokens | None = None
    """The absorbing sequence U, under AUDM."""
    given: Flags | None = None
    """Flags of the given positions."""
    evidence: PerPosition | None = None
    """The evidence of each token on its own clean token, in nats, for a network that reads it."""


@dataclass(frozen=True)
class Noisy:
    """x_t with its time, its noise level and the auxiliary variable of a lifted process."""

    tokens: Tokens
    """The ids x_t."""
    t: PerRow
    """The time of each row, in [0, 1]."""
    alpha_t: PerRow
    """The noise level of each row; float64 where a process made it, whatever the dtype of `t`."""
    aux: Auxiliary | None = None
    """The absorbing sequence U, or the transition times tau, where the coupling shows one; else None."""
    given: Flags | None = None
    """Flags of the given positions, which are clean at every time."""
    place: Int[Tensor, "batch length"] | None = None
    """The position of each entry in its sequence, where single positions were taken out of a batch."""
    evidence: PerPosition | None = None
    """The evidence of each token on its own clean token, where a mixture of processes drew the row."""

    @property
    def free(self) -> Flags:
        """Flags of the positions that are not given."""
        return torch.ones_like(self.tokens, dtype=torch.bool) if self.given is None else ~self.given

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Noisy":
        """Apply a function to every part that is not None."""
        parts = (getattr(self, item.name) for item in fields(self))
        return Noisy(*(None if part is None else change(part) for part in parts))  # type: ignore[arg-type]

    def sequences(self, index: slice | Tensor) -> "Noisy":
        """Take some rows of the batch."""
        return self._each(lambda part: part[index])

    def positions(self, where: "Flags | Positions") -> "Noisy":
        """Take some positions as sequences of length one: every law here is local given a prediction."""
        at = where if isinstance(where, Positions) else Positions.of(where)
        taken = self._each(lambda part: part[at.row] if part.ndim == 1 else at.take(part))
        return taken if self.place is not None else replace(taken, place=at.column.unsqueeze(1))

    def each_position(self) -> "Noisy":
        """Take every position as a sequence of length one, in reading order."""
        batch, length = self.tokens.shape
        every = self._each(lambda part: part.repeat_interleave(length) if part.ndim == 1 else part.reshape(-1, 1))
        place = torch.arange(length, device=self.tokens.device).repeat(batch).unsqueeze(1)
        return every if self.place is not None else replace(every, place=place)

    def to(self, device: torch.device | str) -> "Noisy":
        """Move the state to a device; levels stay float64."""
        return self._each(lambda part: part.to(device))


@dataclass(frozen=True)
class Positions:
    """Some positions of a batch by index, in reading order."""

    row: Int[Tensor, "positions"]
    column: Int[Tensor, "positions"]
    shape: tuple[int, ...]
    """The shape of the batch."""

    @classmethod
    def of(cls, where: Flags) -> "Positions":
        """Find the flagged positions; their number is the one thing that the host must wait for."""
        row, column = where.nonzero(as_tuple=True)
        return cls(row, column, tuple(where.shape))

    def at(self, index: Int[Tensor, "chosen"] | slice) -> "Positions":
        """Return some of these positions."""
        return Positions(self.row[index], self.column[index], self.shape)

    def take(self, values: Shaped[Tensor, "batch length"]) -> Shaped[Tensor, "positions 1"]:
        """Take the values of these positions."""
        return values[self.row, self.column].unsqueeze(1)

    def put(
        self, values: Shaped[Tensor, "batch length"], here: Shaped[Tensor, "positions 1"]
    ) -> Shaped[Tensor, "batch length"]:
        """Replace the values of these positions."""
        return values.index_put((self.row, self.column), here.squeeze(1))
