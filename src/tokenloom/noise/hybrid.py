r"""Hybrid noise (GIDD): a lost token becomes the mask or a uniform token, in a mixture that moves with t.

With theta = asin(sqrt(1 - `schedule.alpha(t)`)), N real tokens, B = 2 p_uniform / (1 - p_uniform) and
C = 1 + B sin cos,

    alpha = cos^2 / C        m_mask = sin^2 / C        m_token = B sin cos / (N C)
    h_mask = tan^2           h_token = (B / N) tan

so at theta = pi/4 a share p_uniform of the noise is uniform; at both ends none, and the prior is all masks.  Per unit
of theta, and between theta_s and theta_t:

    alpha' = -cos (2 sin + B cos) / C^2          (log h)' = 2 / (sin cos) at a mask, 1 / (sin cos) at a token
    1 - h_s/h_t = sin(theta_t - theta_s) sin(theta_t + theta_s) / (cos_s sin_t)^2 at a mask
                = sin(theta_t - theta_s) / (cos_s sin_t)                          at a token

No level is subtracted from 1, and nothing is 0 times infinity at either end.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.noise.base import NOISES
from tokenloom.noise.law import Law, MaskOrUniformLaw, Support
from tokenloom.noise.mask import WithMask
from tokenloom.noise.masses import Masses
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, sealed


@NOISES.register("hybrid")
@dataclass(frozen=True)
class MaskAndUniform(WithMask):
    """Masks and uniform tokens, as above."""

    p_uniform: float = 0.1
    """The uniform share of the noise at theta = pi/4, where it is largest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.p_uniform < 1:
            raise ValueError(f"p_uniform must be in (0, 1), got {self.p_uniform}; without uniform noise use Masked")

    def law(self) -> Law:
        """Return the law at theta = pi/4."""
        return MaskOrUniformLaw(torch.full((1, 1), 1 - self.p_uniform).double(), self.mask, self.vocab_size)

    def masses(self, schedule: Schedule) -> Masses:
        return HybridMasses(self, schedule)


@sealed
@dataclass(frozen=True)
class HybridMasses(Masses):
    """The masses above, with theta from a schedule by 1 - alpha = sin^2."""

    noise: MaskAndUniform
    schedule: Schedule

    support = Support(False, True, False)

    @property
    def _b(self) -> float:
        return 2 * self.noise.p_uniform / (1 - self.noise.p_uniform)

    def _angle(self, t: PerRow) -> tuple[PerRow, PerRow]:
        """sin and cos of theta at times t."""
        lost = self.schedule.lost(t.double())
        return lost.sqrt(), (1 - lost).clamp(min=0).sqrt()

    def _speed(self, t: PerRow) -> PerRow:
        """d theta / dt, 0 where the schedule stands still at t = 0 and infinite where theta sets in like a root."""
        sin, cos = self._angle(t)
        return torch.where(sin > 0, -self.schedule.alpha_prime(t.double()) / (2 * sin * cos), torch.inf)

    def alpha(self, t: PerRow) -> PerRow:
        sin, cos = self._angle(t)
        return cos**2 / (1 + self._b * sin * cos)

    def alpha_prime(self, t: PerRow) -> PerRow:
        sin, cos = self._angle(t)
        slope = (1 + self._b / 2 * cos / sin) / (1 + self._b * sin * cos) ** 2
        return slope * self.schedule.alpha_prime(t.double())

    def time_at_lost(self, lost: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """With alpha = 1 - lost, the smaller root sin^2 of (lost - sin^2)^2 = (alpha B)^2 sin^2 (1 - sin^2)."""
        alpha = 1 - lost
        square = (alpha * self._b) ** 2
        root = (alpha * square * (4 * lost + alpha * self._b**2)).sqrt()
        # the root as 2 c / (b + sqrt(b^2 - 4 c)), which does not cancel; at lost = 0 it is 0, not 0 / 0
        return self.schedule.inverse_lost(2 * lost**2 / (2 * lost + square + root).clamp(min=1e-300))

    def law(self, noisy: Noisy, t: PerRow) -> Law:
        sin, cos = self._angle(t)
        return self._mixed(sin, self._b * cos)

    def mass(self, noisy: Noisy) -> PerPosition:
        sin, cos = self._angle(noisy.t)
        total = 1 + self._b * sin * cos
        real = self.noise.vocab_size - (self.noise.mask < self.noise.vocab_size)
        return self._at(noisy, sin**2 / total, self._b * sin * cos / total / real)

    def renewed(self, noisy: Noisy, s: PerRow) -> tuple[PerPosition, PerPosition]:
        (sin_s, cos_s), (sin_t, cos_t) = self._angle(s), self._angle(noisy.t)
        difference, total = sin_t * cos_s - cos_t * sin_s, sin_t * cos_s + cos_t * sin_s
        token = difference / (cos_s * sin_t)
        share, alpha_s = self._at(noisy, token * total / (cos_s * sin_t), token), self.alpha(s)[:, None]
        return alpha_s * share, (1 - alpha_s) * share

    def renewal_rate(self, noisy: Noisy) -> PerPosition:
        sin, cos = self._angle(noisy.t)
        token = self._speed(noisy.t) / (sin * cos)
        return self._at(noisy, 2 * token, token)

    def later(self, t: PerRow, waiting: PerRow) -> PerRow:
        """tan theta_s = tan theta_t exp(-waiting)."""
        sin, cos = self._angle(t)
        tangent = sin / cos * torch.exp(-waiting)
        return self.schedule.inverse_lost(tangent**2 / (1 + tangent**2))

    def pace(self, noisy: Noisy) -> PerPosition:
        one = torch.ones_like(noisy.t, dtype=torch.float64)
        return self._at(noisy, 2 * one, one)

    def arrivals(self, noisy: Noisy, t: PerRow) -> Law:
        (sin_s, cos_s), (sin_t, cos_t) = self._angle(noisy.t), self._angle(t)
        return self._mixed(sin_t * cos_s + cos_t * sin_s, self._b * cos_s * cos_t)

    def arriving(self, noisy: Noisy) -> tuple[PerRow, Law]:
        """phi / alpha with phi_mask = 2 sin cos / C^2 and N phi_token = B cos^2 / C^2, per unit of theta."""
        sin, cos = self._angle(noisy.t)
        rate = (2 * sin / cos + self._b) / (1 + self._b * sin * cos)
        return rate * self._speed(noisy.t), self._mixed(2 * sin, self._b * cos)

    def _mixed(self, mask: PerRow, uniform: PerRow) -> Law:
        """Return the noise in which mask and uniform tokens have these weights."""
        return MaskOrUniformLaw((mask / (mask + uniform))[:, None], self.noise.mask, self.noise.vocab_size)

    def _at(self, noisy: Noisy, mask: PerRow, token: PerRow) -> PerPosition:
        """Return the first value at masks, the second at other tokens."""
        return torch.where(noisy.tokens == self.noise.mask, mask[:, None], token[:, None])
