"""A partly noised batch: what a network reads and what a step rewrites."""

from dataclasses import dataclass, replace

import torch

from tokenloom.types import Auxiliary, Flags, PerRow, Tokens


@dataclass(frozen=True)
class Noisy:
    """x_t with its time, its noise level and the auxiliary variable of a lifted process.

    `alpha_t` is float64 where a process made it, whatever the dtype of `t`.
    `aux` is the absorbing sequence U of `AbsorbingUniform`, the transition times tau of `MaskedUniform`, else None.
    `fixed` flags given positions, which are clean at every time.
    """

    tokens: Tokens
    t: PerRow
    alpha_t: PerRow
    aux: Auxiliary | None = None
    fixed: Flags | None = None

    def sequences(self, index: slice | torch.Tensor) -> "Noisy":
        """Some rows of the batch."""
        return replace(
            self,
            tokens=self.tokens[index],
            t=self.t[index],
            alpha_t=self.alpha_t[index],
            aux=None if self.aux is None else self.aux[index],
            fixed=None if self.fixed is None else self.fixed[index],
        )

    def positions(self, where: Flags) -> "Noisy":
        """The flagged positions as a batch of sequences of length one: every law here is local given a prediction."""
        row = where.nonzero()[:, 0]
        return Noisy(
            self.tokens[where].unsqueeze(1),
            self.t[row],
            self.alpha_t[row],
            None if self.aux is None else self.aux[where].unsqueeze(1),
            None if self.fixed is None else self.fixed[where].unsqueeze(1),
        )
