r"""Writing from left to right, the order of autoregressive models: position l is written at time t = 1 - l/L.

    x_t^l = x_0^l for l <= (1 - t) L, an arbitrary token for the others,   p(x_0) = prod_l p(x_0^l | x_0^1 .. x_0^{l-1})

A causal network has not seen the token at l when it predicts x_0^l: whatever stands there says nothing (evidence 0),
and its prediction is a leave-one-out posterior.  One evaluation at the clean sequence gives all factors, so nothing
bounds anything here: the likelihood is exact.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import torch

from tokenloom.couplings.base import COUPLINGS, OneWay
from tokenloom.state import NetworkInput, Noisy
from tokenloom.types import PerPosition, PerRow, sealed

if TYPE_CHECKING:
    from tokenloom.process import Process


@COUPLINGS.register("left-to-right")
@sealed
@dataclass(frozen=True)
class LeftToRight(OneWay):
    """Each position is lost at a time of its own, the last one first."""

    def remains(self, process: "Process", noisy: Noisy) -> PerPosition:
        """1 at the positions that are written at the time of a state, else 0."""
        length = noisy.tokens.shape[1]
        count = torch.round(length * (1 - noisy.t.double()))
        return (torch.arange(length, device=noisy.tokens.device) < count[:, None]).double()

    def level(self, process: "Process", noisy: Noisy) -> PerPosition:
        """0: the network has not seen the token."""
        return torch.zeros(noisy.tokens.shape, device=noisy.tokens.device, dtype=torch.float64)

    def mass(self, process: "Process", noisy: Noisy) -> PerPosition:
        return torch.ones(noisy.tokens.shape, device=noisy.tokens.device, dtype=torch.float64)

    def network_input(self, process: "Process", noisy: Noisy) -> NetworkInput:
        """Return the tokens; a causal network is not conditioned on the time."""
        return replace(super().network_input(process, noisy), time=torch.zeros_like(noisy.t))

    def found(self, process: "Process", noisy: Noisy, s: PerRow) -> PerPosition:
        _refuse("bridge: each position needs the ones before it")

    def rates(self, process: "Process", noisy: Noisy) -> tuple[PerPosition, PerPosition]:
        _refuse("reverse rates: a position is written at its own time")


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"LeftToRight has no {what}; use the autoregressive sampler")
