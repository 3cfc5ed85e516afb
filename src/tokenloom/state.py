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
    """The absorbing sequence U, or the transition times tau, where the coupling shows one; else None."""
    given: Flags | None = None
    """Flags of the given positions, which are clean at every time."""
    place: Int[Tensor, "batch length"] | None = None
    """Which position of its sequence each entry is, where single positions were taken out of a batch."""
    evidence: PerPosition | None = None
    """What each token says of its own clean token, where whoever corrupted the row knows and no process says it."""

    @property
    def free(self) -> Flags:
        """Flags of the positions that are not given."""
        return torch.ones_like(self.tokens, dtype=torch.bool) if self.given is None else ~self.given

    def sequences(self, index: slice | Tensor) -> "Noisy":
        """Some rows of the batch."""
        parts = (self.tokens, self.t, self.alpha_t, self.aux, self.given, self.place, self.evidence)
        return Noisy(*[None if part is None else part[index] for part in parts])  # type: ignore[arg-type]

    def positions(self, where: "Flags | Positions") -> "Noisy":
        """Some positions as sequences of length one: every law here is local given a prediction."""
        at = where if isinstance(where, Positions) else Positions.of(where)
        parts = (self.tokens, self.aux, self.given, self.place, self.evidence)
        taken = [None if part is None else part[at.row, at.column].unsqueeze(1) for part in parts]
        tokens, aux, given, place, evidence = taken
        own = at.column.unsqueeze(1) if place is None else place
        assert tokens is not None
        return Noisy(tokens, self.t[at.row], self.alpha_t[at.row], aux, given, own, evidence)

    def each_position(self) -> "Noisy":
        """Every position as a sequence of length one, in reading order."""
        batch, length = self.tokens.shape
        parts = (self.tokens, self.aux, self.given, self.place, self.evidence)
        tokens, aux, given, place, evidence = (None if part is None else part.reshape(-1, 1) for part in parts)
        if place is None:
            place = torch.arange(length, device=self.tokens.device).repeat(batch).unsqueeze(1)
        t, alpha_t = (values.repeat_interleave(length) for values in (self.t, self.alpha_t))
        assert tokens is not None
        return Noisy(tokens, t, alpha_t, aux, given, place, evidence)

    def to(self, device: torch.device | str) -> "Noisy":
        """The same state on another device; levels stay float64."""
        parts = (self.tokens, self.t, self.alpha_t, self.aux, self.given, self.place, self.evidence)
        return Noisy(*[None if part is None else part.to(device) for part in parts])  # type: ignore[arg-type]


@dataclass(frozen=True)
class Positions:
    """Some positions of a batch by index, in reading order."""

    row: Int[Tensor, "positions"]
    """The row of each."""
    column: Int[Tensor, "positions"]
    """Its place in the row."""

    @classmethod
    def of(cls, where: Flags) -> "Positions":
        """The flagged positions; their number is the one thing that the host must wait for."""
        return cls(*where.nonzero(as_tuple=True))

    def __len__(self) -> int:
        return len(self.row)

    def take(self, values: Shaped[Tensor, "batch length"]) -> Shaped[Tensor, "positions 1"]:
        """The values of these positions."""
        return values[self.row, self.column].unsqueeze(1)

    def put(
        self, values: Shaped[Tensor, "batch length"], here: Shaped[Tensor, "positions 1"]
    ) -> Shaped[Tensor, "batch length"]:
        """The values of the batch with those of these positions replaced."""
        return values.index_put((self.row, self.column), here.squeeze(1))
