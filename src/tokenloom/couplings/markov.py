r"""The Markov coupling: noise is renewed on the way, q_{t|s}(x_t | x_s) = k [x_t = x_s] + n(x_t), k = alpha_t/alpha_s.

With n = m_t - k m_s the noise that came after s, Bayes' rule gives (`eq:bridge-prob`, `eq:usdm-bridge`)

    stay (alpha_t p + k m_s)/D      prediction alpha_s n/D      fresh (1 - alpha_s) n/D,      D = alpha_t p + m_t

which is `base.py` with a + b = n/m_t = 1 - h_s/h_t.  MDM, UDM, interpolating noise and GIDD are its cells.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tokenloom.couplings.base import COUPLINGS, Chain, Clocked
from tokenloom.noise.law import Law
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, sealed

if TYPE_CHECKING:
    from tokenloom.process import Process


@COUPLINGS.register("markov")
@sealed
@dataclass(frozen=True)
class Markov(Clocked, Chain):
    """Noise that is renewed on the way."""

    def shares(self, process: "Process", noisy: Noisy, s: PerRow) -> tuple[PerPosition, PerPosition]:
        return process.masses.renewed(noisy, s)

    def rates(self, process: "Process", noisy: Noisy) -> tuple[PerPosition, PerPosition]:
        renewed, alpha = process.masses.renewal_rate(noisy), noisy.alpha_t.double()[:, None]
        return alpha * renewed, (1 - alpha) * renewed

    def later(self, process: "Process", t: PerRow, waiting: PerRow) -> PerRow:
        return process.masses.later(t, waiting)

    def pace(self, process: "Process", noisy: Noisy) -> PerPosition:
        return torch.where(self.mass(process, noisy) > 0, process.masses.pace(noisy), 0)

    def kept(self, process: "Process", noisy: Noisy, t: PerRow) -> tuple[PerPosition, Law]:
        return survival(process, noisy, t), process.masses.arrivals(noisy, t)

    def loss_rate(self, process: "Process", noisy: Noisy) -> tuple[PerPosition, Law]:
        rate, law = process.masses.arriving(noisy)
        return rate[:, None].expand(noisy.tokens.shape), law


def survival(process: "Process", noisy: Noisy, t: PerRow) -> PerPosition:
    """alpha_t / alpha_s from a state at s; at alpha_s = 0 nothing is left to lose."""
    alpha_s, alpha_t = noisy.alpha_t.double(), process.alpha(t)
    kept = torch.where(alpha_s > 0, alpha_t / torch.where(alpha_s > 0, alpha_s, 1), 1)
    return kept[:, None].expand(noisy.tokens.shape)
