r"""The maximal coupling: a token changes as rarely as the marginals allow.

    q(x_s, x_t | x_0) = alpha_t [x_s = x_t = x_0] + (alpha_s - alpha_t) [x_s = x_0] w(x_t)
                        + (1 - alpha_s) w(x_t) [x_s = x_t]

(`eq:max-coupling-pair`, for any w).  Going down in time a token either stays or becomes x_0, once; going up, only a
token that still equals x_0 moves.  Without x_0 the chain is not Markov, unless w is 0 or 1 at every clean token; then
it is the Markov coupling, and its bound is tight.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tokenloom.couplings.base import COUPLINGS, OneWay
from tokenloom.noise.law import Law
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens, sealed

if TYPE_CHECKING:
    from tokenloom.process import Process


@COUPLINGS.register("maximal")
@sealed
@dataclass(frozen=True)
class Maximal(OneWay):
    """One path per token, of which nothing is shown."""

    def loss_rate_given(self, process: "Process", noisy: Noisy, x_0: Tokens) -> tuple[PerPosition, Law]:
        """Return the rate of the way up: -alpha' / (alpha + m(x_0)) from x_0 to a draw of w, 0 from other tokens."""
        still = noisy.tokens == x_0
        total = noisy.alpha_t.double()[:, None] + process.masses.mass(noisy)
        rate = -process.alpha_prime(noisy.t)[:, None] / torch.where(still, total, 1)
        return torch.where(still, rate, 0), self.law(process, noisy)
