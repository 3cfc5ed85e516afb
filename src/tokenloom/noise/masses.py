r"""The noise mass m_t = (1 - alpha_t) w_t beside the level alpha_t, and the few forms of it that couplings ask for.

With h = m / alpha at the token x_t, going down from t to s in a Markov chain, noise that is there at t was there at s
already with probability h_s / h_t.  So

    renewed(s, t)  = 1 - h_s / h_t          the share of the noise at t that came after s
    renewal_rate   = (log h)'               its rate per unit of time
    their integral = log(h_t / h_s)         a clock with a closed inverse (`later`)

A noise that stands still has h = w (1 - alpha)/alpha, and none of the three depends on w.  `StillMasses` is that case;
a noise that moves with t gives its own (`hybrid.py`).  Nothing here is a difference of nearly equal numbers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.noise.law import Law, Support
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, sealed


class Masses(ABC):
    """alpha_t and m_t, in float64: one number per row costs nothing, and a step of 1/1000 in float32 is off by 1e-4."""

    schedule: Schedule
    support: Support
    """The kinds of probabilities that clean tokens have for 0 < t < 1."""

    def alpha(self, t: PerRow) -> PerRow:
        """Return the signal left at times t: that of the schedule, unless the noise bends it."""
        return self.schedule.alpha(t.double())

    def alpha_prime(self, t: PerRow) -> PerRow:
        """d alpha / dt."""
        return self.schedule.alpha_prime(t.double())

    def time_at_lost(self, lost: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the time at which 1 - alpha is `lost`; above 1 where that is never reached."""
        return self.schedule.inverse_lost(lost)

    @abstractmethod
    def law(self, noisy: Noisy, t: PerRow) -> Law:
        """w at times t, at the positions of a state."""

    def mass(self, noisy: Noisy) -> PerPosition:
        """m_t at x_t."""
        return (1 - noisy.alpha_t.double()[:, None]) * self.law(noisy, noisy.t).probability_of(noisy.tokens)

    @abstractmethod
    def renewed(self, noisy: Noisy, s: PerRow) -> tuple[PerPosition, PerPosition]:
        """1 - h_s / h_t at x_t, where m_t > 0: the share alpha_s of it that is clean at s, and the rest."""

    @abstractmethod
    def renewal_rate(self, noisy: Noisy) -> PerPosition:
        """(log h)' at x_t, where m_t > 0."""

    @abstractmethod
    def later(self, t: PerRow, waiting: PerRow) -> PerRow:
        """Return the earlier time s by which the clock of the slowest token has run for `waiting`."""

    def pace(self, noisy: Noisy) -> PerPosition:
        """Return the speed of each token's clock, in units of that of `later`."""
        return torch.ones(noisy.tokens.shape, device=noisy.tokens.device, dtype=torch.float64)

    @abstractmethod
    def arrivals(self, noisy: Noisy, t: PerRow) -> Law:
        """m_t - (alpha_t / alpha_s) m_s, normalised: what a token lost between the state's time s and t is at t."""

    @abstractmethod
    def arriving(self, noisy: Noisy) -> tuple[PerRow, Law]:
        """Return the rate at which the Markov chain loses a token at a state's time, and the law of what it becomes."""


@sealed
@dataclass(frozen=True)
class StillMasses(Masses):
    """A noise law that does not move, under a schedule."""

    fixed: Law
    """w, for one row."""
    schedule: Schedule
    support: Support

    def law(self, noisy: Noisy, t: PerRow) -> Law:
        if noisy.place is not None:
            return self.fixed.at(noisy.place)
        length = self.fixed.length
        if length is not None and length != noisy.tokens.shape[1]:
            raise ValueError(f"the noise is given for length {length}, got tokens of length {noisy.tokens.shape[1]}")
        return self.fixed

    def renewed(self, noisy: Noisy, s: PerRow) -> tuple[PerPosition, PerPosition]:
        """(alpha_s - alpha_t) / (alpha_s (1 - alpha_t)), in its two parts."""
        alpha_s, alpha_t = self.alpha(s)[:, None], noisy.alpha_t.double()[:, None]
        lost = torch.where(alpha_t < 1, 1 - alpha_t, 1)
        clean = (alpha_s - alpha_t) / lost
        fresh = torch.where(alpha_s > 0, clean * (1 - alpha_s) / torch.where(alpha_s > 0, alpha_s, 1), 0)
        return clean.expand(noisy.tokens.shape), fresh.expand(noisy.tokens.shape)

    def renewal_rate(self, noisy: Noisy) -> PerPosition:
        """-alpha' / (alpha (1 - alpha))."""
        alpha = noisy.alpha_t.double()
        return (-self.alpha_prime(noisy.t) / (alpha * (1 - alpha)))[:, None].expand(noisy.tokens.shape)

    def later(self, t: PerRow, waiting: PerRow) -> PerRow:
        """logit(alpha_s) = logit(alpha_t) + waiting."""
        return self.time_at_lost(torch.sigmoid(-torch.logit(self.alpha(t)) - waiting))

    def arrivals(self, noisy: Noisy, t: PerRow) -> Law:
        return self.law(noisy, t)

    def arriving(self, noisy: Noisy) -> tuple[PerRow, Law]:
        return -self.alpha_prime(noisy.t) / noisy.alpha_t.double(), self.law(noisy, noisy.t)
