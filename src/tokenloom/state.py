"""A partly noised batch: what a network reads and what a step rewrites."""

from dataclasses import dataclass

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
