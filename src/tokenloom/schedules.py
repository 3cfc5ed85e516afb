r"""Noise schedules: t -> alpha_t, its derivative, and the inverse alpha -> t.

A token survives until time t with probability alpha_t, so alpha_0 = 1, alpha falls, and a transition time tau with
P(tau < t) = 1 - alpha_t is drawn as `inverse(u)` with u uniform on [0, 1].  Every schedule is
alpha = 1 - (1 - eps) e(t) with an erosion e rising from 0 to 1, except the geometric one, given through -log alpha.

What `eps` and the training-time floor mean for the bound.  The negative evidence lower bound is

    -log p(x_0) <= KL(q_{1|0}(. | x_0) || p_1) + int_0^1 (rate-weighted divergence at t) dt.

* `eps` is alpha_1, the signal left at t = 1; it keeps beta = -alpha'/alpha finite there.  The sampler starts from p_1
  as if nothing were left.  With uniform noise the first term above is the price, exactly per token
  (eps + (1 - eps)/K) log(1 + (K - 1) eps) + (1 - eps)(1 - 1/K) log(1 - eps).  With an absorbing state that term is
  infinite for any eps > 0; the chain that is really sampled loses the last eps in one jump at t = 1, which costs the
  slice of the integral over alpha in [0, eps]: eps times the cross-entropy at t = 1.
  Both vanish with eps = 0.  A bound quoted without its term is not a bound (`objectives/prior_term.py`).
* The floor of training times (t drawn from [floor, 1]) leaves out the integral over [0, floor), which is not negative.
  What remains is an estimate *below* the bound.  Training may use a floor; a reported bound integrates from 0.  For a
  denoiser with finite logits that integral is infinite wherever noise can produce a data token; there a bound ends in a
  reconstruction instead (`objectives/nelbo.py`).

`inverse` of a level below alpha_1 is a time after 1: that transition does not happen within the run.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields, checked


@dataclass(frozen=True)
class Schedule(ABC):
    """alpha, alpha_prime and inverse, each for a float tensor of any shape."""

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def alpha(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the signal left at time t: alpha_0 = 1 exactly, decreasing."""

    @abstractmethod
    def alpha_prime(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """d alpha / dt, finite on [0, 1]."""

    @abstractmethod
    def inverse(self, alpha: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the time t at which alpha_t = alpha; 0 for alpha = 1, above 1 for alpha < alpha_1."""

    def lost(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """1 - alpha_t; the schedules here form it without a difference, so that it is accurate near t = 0."""
        return 1 - self.alpha(t)

    def inverse_lost(self, lost: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the time t at which 1 - alpha_t = lost, likewise."""
        return self.inverse(1 - lost)


SCHEDULES: Registry[Schedule] = Registry("schedule", "tokenloom.schedules", "tokenloom.schedules")


@dataclass(frozen=True)
class _Eroding(Schedule):
    """alpha = 1 - (1 - eps) e(t), with e(t) = t unless a subclass bends it."""

    eps: float = 1e-3
    """The signal left at t = 1, in [0, 1)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eps < 1:
            raise ValueError(f"eps must be in [0, 1), got {self.eps}: it is the signal left at t = 1")

    def _erosion(self, t: Tensor) -> Tensor:
        return t

    def _erosion_prime(self, t: Tensor) -> Tensor:
        return torch.ones_like(t)

    def _erosion_inverse(self, erosion: Tensor) -> Tensor:
        return erosion

    @checked
    def alpha(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return 1 - self.lost(t)

    def lost(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return (1 - self.eps) * self._erosion(t).clamp(max=1)  # which rounding may exceed at t = 1

    def inverse_lost(self, lost: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self._erosion_inverse(lost / (1 - self.eps))

    @checked
    def alpha_prime(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return -(1 - self.eps) * self._erosion_prime(t)

    @checked
    def inverse(self, alpha: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.inverse_lost(1 - alpha)


@SCHEDULES.register("linear")
@dataclass(frozen=True)
class LinearSchedule(_Eroding):
    """e(t) = t, the schedule of the paper."""


@SCHEDULES.register("cosine")
@dataclass(frozen=True)
class CosineSchedule(_Eroding):
    """e(t) = 1 - cos(pi t / 2), written 2 sin^2(pi t / 4): little noise for long, then much."""

    def _erosion(self, t: Tensor) -> Tensor:
        return 2 * torch.sin(math.pi / 4 * t) ** 2

    def _erosion_prime(self, t: Tensor) -> Tensor:
        return math.pi / 2 * torch.sin(math.pi / 2 * t)

    def _erosion_inverse(self, erosion: Tensor) -> Tensor:
        return 4 / math.pi * torch.asin((erosion / 2).sqrt().clamp(max=1))


@SCHEDULES.register("polynomial")
@dataclass(frozen=True)
class PolynomialSchedule(_Eroding):
    """e(t) = t^power."""

    power: float = 2.0
    """The exponent, at least 1; the larger, the later tokens are lost."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.power < math.inf:
            raise ValueError(f"power must be at least 1, got {self.power}: below 1 the derivative is infinite at t = 0")

    def _erosion(self, t: Tensor) -> Tensor:
        return t**self.power

    def _erosion_prime(self, t: Tensor) -> Tensor:
        return self.power * t ** (self.power - 1)

    def _erosion_inverse(self, erosion: Tensor) -> Tensor:
        return erosion ** (1 / self.power)


@SCHEDULES.register("geometric")
@dataclass(frozen=True)
class GeometricSchedule(Schedule):
    """-log alpha = sigma_min (r^t - 1) with r = sigma_max / sigma_min.

    The usual geometric noise sigma_min r^t starts at sigma_min, not 0; the shift makes alpha_0 exactly 1.
    """

    sigma_min: float = 1e-3
    """Noise at the start; the smaller, the longer little is lost."""
    sigma_max: float = 20.0
    """About -log alpha_1, the noise at the end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.sigma_min < self.sigma_max < math.inf:
            raise ValueError(f"need 0 < sigma_min < sigma_max, got {self.sigma_min} and {self.sigma_max}")

    @property
    def _log_ratio(self) -> float:
        return math.log(self.sigma_max / self.sigma_min)

    @checked
    def alpha(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.exp(-self.sigma_min * torch.expm1(self._log_ratio * t))

    def lost(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return -torch.expm1(-self.sigma_min * torch.expm1(self._log_ratio * t))

    def inverse_lost(self, lost: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.log1p(-torch.log1p(-lost) / self.sigma_min) / self._log_ratio

    @checked
    def alpha_prime(self, t: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return -self.sigma_min * self._log_ratio * torch.exp(self._log_ratio * t) * self.alpha(t)

    @checked
    def inverse(self, alpha: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return torch.log1p(-torch.log(alpha) / self.sigma_min) / self._log_ratio
