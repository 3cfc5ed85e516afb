r"""Transition times: each position carries the time tau at which it loses its token.

    P(tau <= t) = 1 - alpha_t,    x_t = x_0 if tau > t, a draw of the noise kept ever after if tau <= t.

Given tau, hide the lost tokens behind the mask, x~_t(tau): the posterior is the denoiser of a *masked* model at x~_t,
whatever the noise (`lem:mudm-denoiser-equivalence`), so an unmodified MDM network works and its bound is the masked
one.  Averaged over tau the one-time marginals are those of the Markov coupling; the paths are those of the maximal one.
Redrawing tau,

    x_s != x_0:  tau_s has the density -alpha'/(1 - alpha_s) on tau <= s
    x_s  = x_0:  the same with probability m_s/(alpha_s + m_s) at x_0, else the density -alpha'/alpha_s on tau > s

after each step of the *Markov* bridge, x_0 drawn jointly, recovers the Markov chain (`eq:mudm-tau-cond-x0-xs`).  That
works for noise that moves with t too, where a chain with tau fixed does not exist; of tau only [tau <= s] counts then.
Since alpha_tau is uniform on [0, 1], each piece is the time of a uniform number on an interval of alpha.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from tokenloom.couplings.base import COUPLINGS, Chain, Timed, probability_lost
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.noise.base import check_mask_id
from tokenloom.noise.law import Law
from tokenloom.state import Noisy
from tokenloom.types import Auxiliary, Flags, PerPosition, PerRow, Tokens, sealed

if TYPE_CHECKING:
    from tokenloom.process import Process


@COUPLINGS.register("transition-times")
@sealed
@dataclass(frozen=True)
class TransitionTimes(Timed, Chain):
    """One path per token, shown with tau; the mask only appears in `masked_view`."""

    mask_id: int | None = None
    """The id of the mask that stands for a lost token: one more id, K, unless it lies inside the vocabulary."""

    def check(self, process: "Process") -> None:
        check_mask_id(self.mask_id, process.vocab_size)

    def mask(self, process: "Process") -> int:
        return super().mask(process) if self.mask_id is None or process.noise.mask is not None else self.mask_id

    def auxiliary(self, process: "Process", tokens: Tokens, generator: Randomness | None) -> Auxiliary:
        return process.masses.time_at_lost(uniform(tuple(tokens.shape), generator, tokens.device))

    def prior(self, process: "Process", noisy: Noisy, generator: Randomness | None) -> Noisy:
        """tau is drawn given tau <= 1."""
        u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        return replace(noisy, aux=process.masses.time_at_lost((1 - noisy.alpha_t[:, None]) * u).clamp(max=1))

    def resample(self, process: "Process", x_0: Tokens, x_s: Noisy, generator: Randomness | None) -> Auxiliary:
        number = uniform(tuple(x_0.shape), generator, x_0.device)
        return self.times_of(process, x_s, number < probability_lost(process, x_0, x_s), generator)

    def times_of(self, process: "Process", x_s: Noisy, lost: Flags, generator: Randomness | None) -> Auxiliary:
        """Draw tau given which tokens are lost by the time of a state."""
        alpha, bound = x_s.alpha_t.double()[:, None], x_s.t.double()[:, None]
        u = uniform(tuple(lost.shape), generator, lost.device)
        before = process.masses.time_at_lost((1 - alpha) * u).minimum(bound)
        # strictly after s, whatever the inverse rounds to: a kept token must not count as lost
        after = process.masses.time_at_lost(1 - alpha * u).maximum(bound.nextafter(bound + 1))
        return torch.where(lost, before, after)

    def kept(self, process: "Process", noisy: Noisy, t: PerRow) -> tuple[PerPosition, Law]:
        lost = self.lost(replace(noisy, t=t)) & ~self.lost(noisy)
        return (~lost).double(), self.law(process, noisy)

    def loss_rate(self, process: "Process", noisy: Noisy) -> tuple[PerPosition, Law]:
        """Return the hazard of tau at t where it has not come yet; a lost token rests."""
        beta = -process.alpha_prime(noisy.t) / noisy.alpha_t.double()
        return beta[:, None] * ~self.lost(noisy), self.law(process, noisy)
