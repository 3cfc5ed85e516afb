"""A partly noised batch: what a step rewrites, and what of it a network reads."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.types import Auxiliary, Flags, PerRow, Tokens


@dataclass(frozen=True)
class NetworkInput:
    """What a network is shown of a state: ids, the time and the signal of each row, and, where they exist, U and the
    given positions."""

    tokens: Tokens
    time: PerRow
    alpha: PerRow
    absorbing: Tokens | None = None
    given: Flags | None = None


@dataclass(frozen=True)
class Noisy:
    """x_t with its time, its noise level and the auxiliary variable of a lifted process.

    `alpha_t` is float64 where a process made it, whatever the dtype of `t`.
    `aux` is the absorbing sequence U of `AbsorbingUniform`, the transition times tau of `MaskedUniform`, else None.
    `given` flags given positions, which are clean at every time.
    `place` says which position of its sequence each entry is, where single positions were taken out of a batch.
    """

    tokens: Tokens
    t: PerRow
    alpha_t: PerRow
    aux: Auxiliary | None = None
    given: Flags | None = None
    place: Int[Tensor, "batch length"] | None = None

    @property
    def free(self) -> Flags:
        """Flags of the positions that are not given."""
        return torch.ones_like(self.tokens, dtype=torch.bool) if self.given is None else ~self.given

    def sequences(self, index: slice | Tensor) -> "Noisy":
        """Some rows of the batch."""
        return Noisy(*(None if part is None else part[index] for part in self._parts))  # type: ignore[arg-type]

    def positions(self, where: Flags) -> "Noisy":
        """The flagged positions as a batch of sequences of length one: every law here is local given a prediction."""
        row, column = where.nonzero(as_tuple=True)
        given, aux, place = (
            None if part is None else part[where].unsqueeze(1) for part in (self.given, self.aux, self.place)
        )
        tokens, own = self.tokens[where].unsqueeze(1), column.unsqueeze(1)
        return Noisy(tokens, self.t[row], self.alpha_t[row], aux, given, own if place is None else place)

    def to(self, device: torch.device | str) -> "Noisy":
        """The same state on another device; levels stay float64."""
        return Noisy(*(None if part is None else part.to(device) for part in self._parts))  # type: ignore[arg-type]

    @property
    def _parts(self) -> tuple[Tensor | None, ...]:
        return self.tokens, self.t, self.alpha_t, self.aux, self.given, self.place
