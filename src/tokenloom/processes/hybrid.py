r"""Hybrid noise (GIDD): a lost token becomes the mask or a uniform token, in a mixture that moves with t.

With tau = 1 - `schedule.alpha(t)`, B = 2 p_uniform / (1 - p_uniform), c = B sqrt(tau (1 - tau)) and C = 1 + c,

    q(x_t | x_0) = ((1 - tau) [x_t = x_0] + tau [x_t = mask] + c uniform(x_t)) / C,

so alpha = (1 - tau)/C.  At tau = 1/2 a share p_uniform of the noise is uniform; at both ends none, and the prior is all
masks.  What the general bridge and rates (`bridges.py`, `rates.py`) ask of the noise is free of differences: with
r = sqrt(tau / (1 - tau)), kept m_s and the arrivals since s, each over C_t, and phi, over C^2 dt/dtau, are

    mask      (1 - tau_t) r_s^2              (tau_t - tau_s) / (1 - tau_s)                             1
    uniform   (1 - tau_t) B r_s              B (sqrt(tau_t (1 - tau_t)) - (1 - tau_t) r_s)             B / (2 r)

in all, of which each token has its equal part.  A network predicts the leave-one-out posterior (`eq:param_plug_in`).
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.categorical import draw_uniform_tokens
from tokenloom.posteriors import LeaveOneOut
from tokenloom.processes.base import PROCESSES
from tokenloom.processes.forward import reveal
from tokenloom.processes.mask import HasMask
from tokenloom.processes.noise import Noise
from tokenloom.schedules import LinearSchedule, Schedule
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class MaskOrUniform(Noise):
    """pi = share [. = mask] + (1 - share) uniform on the real tokens, with one share per row."""

    share: Float[Tensor, "batch 1"]
    mask: int
    vocab_size: int

    @property
    def real(self) -> int:
        """How many tokens are not the mask."""
        return self.vocab_size - (self.mask < self.vocab_size)

    def probability_of(self, tokens: Tokens) -> PerPosition:
        return self._probability(tokens)

    def _probability(self, states: Tensor) -> Tensor:
        return torch.where(states == self.mask, self.share, (1 - self.share) / self.real)

    def log_probs(self) -> Float[Tensor, "#batch #length states"]:
        states = torch.arange(max(self.vocab_size, self.mask + 1), device=self.share.device)
        return self._probability(states).log().unsqueeze(1)

    def draw(self, u: PerPosition) -> Tokens:
        number = draw_uniform_tokens(_beyond(u, self.share), self.real)
        return torch.where(u < self.share, self.mask, self._token(number))

    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        masked = tokens == self.mask
        others = torch.where(masked, self.real, self.real - 1)
        share = self.share / (self.share + (1 - self.share) * (self.real - 1) / self.real)
        share = torch.where(masked, 0, share)
        first = torch.where(masked, 0, tokens - (tokens > self.mask).long() + 1)  # behind the own token, in a circle
        number = (first + (_beyond(u, share) * others).long().minimum(others - 1)) % self.real
        return torch.where(u < share, self.mask, self._token(number))

    def _token(self, number: Tokens) -> Tokens:
        """The real token of a number in 0..real-1."""
        return number + (number >= self.mask).long()


def _beyond(u: PerPosition, share: Tensor) -> PerPosition:
    """Uniform numbers that are not below the share, as uniform numbers again."""
    return ((u - share) / (1 - share).clamp(min=1e-300)).clamp(0, 1)


@PROCESSES.register("hybrid")
@dataclass(frozen=True)
class Hybrid(HasMask):
    """GIDD on K tokens and the mask.

    Raises:
        ValueError: If `p_uniform` is not in (0, 1).
    """

    p_uniform: float = 0.1
    """The uniform share of the noise at tau = 1/2, where it is largest."""
    schedule: Schedule = field(default_factory=lambda: LinearSchedule(eps=0.0), kw_only=True)
    """How fast tau rises from 0 to 1: tau = 1 - schedule.alpha(t)."""

    method = "hybrid"
    bridge_takes = (LeaveOneOut,)
    mask_states = True
    has_rate_integral = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.p_uniform < 1:
            raise ValueError(f"p_uniform must be in (0, 1), got {self.p_uniform}; without uniform noise use Masked")

    @property
    def num_states(self) -> int:
        return max(self.vocab_size, self.mask + 1)

    # ---------------------------------------------------------------- levels

    @property
    def _b(self) -> float:
        return 2 * self.p_uniform / (1 - self.p_uniform)

    def _tau(self, t: PerRow) -> PerRow:
        return 1 - self.schedule.alpha(t.double())

    def _total(self, tau: PerRow) -> PerRow:
        """C."""
        return 1 + self._b * (tau * (1 - tau)).clamp(min=0).sqrt()

    def alpha(self, t: PerRow) -> PerRow:
        tau = self._tau(t)
        return (1 - tau) / self._total(tau)

    def alpha_prime(self, t: PerRow) -> PerRow:
        """-(1 + B / (2 r)) / C^2 dtau/dt: infinite at t = 0, where uniform noise sets in like a square root."""
        tau = self._tau(t)
        slope = 1 + self._b / 2 * ((1 - tau) / tau).sqrt()
        return slope / self._total(tau) ** 2 * self.schedule.alpha_prime(t.double())

    def time_at(self, alpha: PerRow) -> PerRow:
        """The smaller root tau of (1 - tau - alpha)^2 = alpha^2 B^2 tau (1 - tau)."""
        lost, square = 1 - alpha, (alpha * self._b) ** 2
        root = (alpha * square * (4 * lost + alpha * self._b**2)).sqrt()
        return self.schedule.inverse(1 - 2 * lost**2 / (2 * lost + square + root).clamp(min=1e-300))

    # ---------------------------------------------------------------- noise

    def noise(self, noisy: Noisy) -> Noise:
        return self._noise_before(noisy, noisy.t)

    def evidence(self, noisy: Noisy) -> PerPosition:
        """That of any noise, except that a mask says nothing."""
        return reveal(super().evidence(noisy).masked_fill(noisy.tokens == self.mask, 0), noisy)

    def _noise_before(self, noisy: Noisy, s: PerRow) -> Noise:
        tau = self._tau(s)
        return self._mixed(tau.sqrt(), self._b * (1 - tau).sqrt())

    def _noise_until(self, noisy: Noisy, t: PerRow) -> Noise:
        return self._mixed(*self._arrivals(self._tau(noisy.t), self._tau(t)))

    def _jump_noise(self, noisy: Noisy) -> Noise:
        tau = self._tau(noisy.t)
        return self._mixed(2 * tau.sqrt(), self._b * (1 - tau).sqrt())

    def _mixed(self, mask: PerRow, uniform: PerRow) -> MaskOrUniform:
        """The noise in which mask and uniform tokens have these weights."""
        return MaskOrUniform((mask / (mask + uniform))[:, None], self.mask, self.vocab_size)

    def _arrivals(self, tau_s: PerRow, tau_t: PerRow) -> tuple[PerRow, PerRow]:
        """The arrivals between two times, of the mask and of uniform tokens in all, over C_t."""
        ratio = (tau_s / (1 - tau_s)).sqrt()
        uniform = self._b * ((tau_t * (1 - tau_t)).clamp(min=0).sqrt() - (1 - tau_t) * ratio)
        return (tau_t - tau_s) / (1 - tau_s), uniform.clamp(min=0)

    def _noise_history(self, noisy: Noisy, s: PerRow) -> tuple[PerPosition, PerPosition]:
        tau_s, tau_t = self._tau(s), self._tau(noisy.t)
        ratio = (tau_s / (1 - tau_s)).sqrt()
        total = self._total(tau_t)
        kept = self._at(noisy, (1 - tau_t) * ratio**2 / total, (1 - tau_t) * self._b * ratio / total)
        mask, uniform = self._arrivals(tau_s, tau_t)
        return kept, self._at(noisy, mask / total, uniform / total)

    def _arrival_rate(self, noisy: Noisy) -> PerPosition:
        tau = self._tau(noisy.t)
        rate = -self.schedule.alpha_prime(noisy.t.double()) / self._total(tau) ** 2
        return self._at(noisy, rate, rate * self._b / 2 * ((1 - tau) / tau).sqrt())

    def _at(self, noisy: Noisy, mask: PerRow, uniform: PerRow) -> PerPosition:
        """What x_t has of a mass on the mask and of a mass on all real tokens together."""
        real = self.vocab_size - (self.mask < self.vocab_size)
        return torch.where(noisy.tokens == self.mask, mask[:, None], uniform[:, None] / real)
