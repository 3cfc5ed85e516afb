"""A partly noised batch: what a step rewrites, and what of it a network reads."""

from dataclasses import dataclass

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from tokenloom.types import Auxiliary, Flags, PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class NetworkInput:
    """What a network is shown of a state."""

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
    """What each token says of its own clean token, in nats, for a network that reads it."""


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
    """The absorbing sequence U of `AbsorbingUniform`, the transition times tau of `MaskedUniform`, else None."""
    given: Flags | None = None
    """Flags of the given positions, which are clean at every time."""
    place: Int[Tensor, "batch length"] | None = None
    """Which position of its sequence each entry is, where single positions were taken out of a batch."""

    @property
    def free(self) -> Flags:
        """Flags of the positions that are not given."""
        return torch.ones_like(self.tokens, dtype=torch.bool) if self.given is None else ~self.given

    def sequences(self, index: slice | Tensor) -> "Noisy":
        """Some rows of the batch.

        Args:
            index: A slice, row numbers or flags of rows.

        Returns:
            The state of these rows alone.
        """
        return Noisy(*(None if part is None else part[index] for part in self._parts))  # type: ignore[arg-type]

    def positions(self, where: "Flags | Positions") -> "Noisy":
        """Some positions as sequences of length one: every law here is local given a prediction.

        Args:
            where: The positions to take out, by flags or by index.

        Returns:
            A state of shape [positions, 1], in reading order, that remembers each `place`.
        """
        at = where if isinstance(where, Positions) else Positions.of(where)
        given, aux, place = (None if part is None else at.take(part) for part in (self.given, self.aux, self.place))
        own = at.column.unsqueeze(1) if place is None else place
        return Noisy(at.take(self.tokens), self.t[at.row], self.alpha_t[at.row], aux, given, own)

    def to(self, device: torch.device | str) -> "Noisy":
        """The same state on another device; levels stay float64.

        Args:
            device: Where the tensors of the new state lie.

        Returns:
            A state with the same values; tensors already there are shared.
        """
        return Noisy(*(None if part is None else part.to(device) for part in self._parts))  # type: ignore[arg-type]

    @property
    def _parts(self) -> tuple[Tensor | None, ...]:
        return self.tokens, self.t, self.alpha_t, self.aux, self.given, self.place


@dataclass(frozen=True)
class Positions:
    """Some positions of a batch by index, in reading order."""

    row: Int[Tensor, "positions"]
    """The row of each."""
    column: Int[Tensor, "positions"]
    """Its place in the row."""

    @classmethod
    def of(cls, where: Flags) -> "Positions":
        """The flagged positions; their number is the one thing that the host must wait for.

        Args:
            where: Flags of positions.

        Returns:
            Their indices.
        """
        return cls(*where.nonzero(as_tuple=True))

    def __len__(self) -> int:
        return len(self.row)

    def take(self, values: Shaped[Tensor, "batch length"]) -> Shaped[Tensor, "positions 1"]:
        """The values of these positions.

        Args:
            values: One value per position of the batch.

        Returns:
            One value per position taken.
        """
        return values[self.row, self.column].unsqueeze(1)

    def put(
        self, values: Shaped[Tensor, "batch length"], here: Shaped[Tensor, "positions 1"]
    ) -> Shaped[Tensor, "batch length"]:
        """The values of the batch with those of these positions replaced.

        Args:
            values: One value per position of the batch.
            here: The new values of these positions.

        Returns:
            New values of the batch.
        """
        return values.index_put((self.row, self.column), here.squeeze(1))
