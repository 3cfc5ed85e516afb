r"""Branch weights of the bridges q(x_s | x_t, endpoint) for s < t, as functions of small tensors.

Notation: kept = alpha_t / alpha_s, lost = 1 - kept, p the endpoint's mass at x_t (of x_0, or of a law of x_0), and, of
the noise, m_t = (1 - alpha_t) pi_t its mass at x_t, and arrivals = m_t - kept m_s, the part of it that came after s.

canonical (Bayes) extension, for a leave-one-out prediction nu             (`eq:bridge-prob`, `eq:usdm-bridge`)
    stay  alpha_t p + kept m_s      prediction  alpha_s arrivals      noise  (1 - alpha_s) arrivals
    each divided by alpha_t p + m_t; the noise branch draws from pi_s.  Where pi never moves, arrivals = lost pi.

barycentric extension, for a denoiser mu and a pi that never moves    (`eq:linear-bridge-extension-udm`; MDM, AUDM)
    stay  gamma_1 + (gamma_3 - gamma_0) p          prediction  gamma_2          noise  gamma_3 (1 - p) + gamma_0 p
    gamma_0 = lost (1 - alpha_s) pi / (alpha_t + (1 - alpha_t) pi)     gamma_1 = kept (1 - alpha_s) / (1 - alpha_t)
    gamma_2 = (alpha_s - alpha_t) / (1 - alpha_t)                      gamma_3 = lost (1 - alpha_s) / (1 - alpha_t)

max coupling, for a denoiser                                                             (`eq:frozen-audm-bridge`)
    stay  (1 - alpha_s) / (1 - alpha_t)            prediction  gamma_2

On one-hot endpoints the first two agree.  Where Bayes' rule is silent (a state of probability 0, such as a visible
token under a masked process that the prediction rules out) the token stays: the completion of `eq:mdm-bridge`.
Nothing is subtracted except levels, so the weights hold in float32.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.processes.mixtures import branches
from tokenloom.types import PerPosition

Alpha = Float[Tensor, "batch 1"]
Weights = Float[Tensor, "batch length 3"]


def canonical(
    alpha_s: Alpha, alpha_t: Alpha, kept_noise: PerPosition, arrivals: PerPosition, p: PerPosition
) -> Weights:
    """Bayes' formula with a leave-one-out prediction in the place of x_0; `kept_noise` is kept m_s."""
    stay = alpha_t * p + kept_noise
    total = stay + arrivals
    possible = torch.where(total > 0, total, 1).unsqueeze(-1)
    return stay_where(total == 0, branches(stay, alpha_s * arrivals, (1 - alpha_s) * arrivals) / possible)


def barycentric(alpha_s: Alpha, alpha_t: Alpha, pi: PerPosition, p: PerPosition, others: PerPosition) -> Weights:
    """Bayes' formula averaged over a denoiser; `others` is 1 - p, which may be far below the rounding of p."""
    kept, lost = survival(alpha_s, alpha_t)
    same = alpha_t + (1 - alpha_t) * pi
    fresh = lost * (1 - alpha_s)
    gamma_0 = fresh * pi / same
    gamma_1 = kept * (1 - alpha_s) / (1 - alpha_t)
    gamma_3 = fresh / (1 - alpha_t)
    gamma_3_less_gamma_0 = gamma_3 * alpha_t / same
    weights = branches(gamma_1 + gamma_3_less_gamma_0 * p, _gamma_2(alpha_s, alpha_t), gamma_3 * others + gamma_0 * p)
    return stay_where((pi == 0) | (alpha_t == 1), weights)


def max_coupling(alpha_s: Alpha, alpha_t: Alpha) -> Weights:
    """The maximal coupling, averaged over a denoiser."""
    weights = branches((1 - alpha_s) / (1 - alpha_t), _gamma_2(alpha_s, alpha_t), torch.zeros_like(alpha_t))
    return stay_where(alpha_t == 1, weights)


def stay_where(where: Tensor, weights: Tensor) -> Tensor:
    """Weights that leave the flagged positions unchanged."""
    zero = torch.zeros_like(weights[..., 0])
    return torch.where(where.unsqueeze(-1), branches(zero + 1, zero, zero), weights)


def _gamma_2(alpha_s: Tensor, alpha_t: Tensor) -> Tensor:
    return (alpha_s - alpha_t) / (1 - alpha_t)


def survival(alpha_s: Tensor, alpha_t: Tensor) -> tuple[Tensor, Tensor]:
    """alpha_{t|s} and 1 - alpha_{t|s}; at alpha_s = 0 nothing is left to lose."""
    positive = alpha_s > 0
    safe = torch.where(positive, alpha_s, 1)
    return torch.where(positive, alpha_t / safe, 1), torch.where(positive, (alpha_s - alpha_t) / safe, 0)
