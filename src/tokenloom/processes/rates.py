r"""Jump rates of the continuous-time chains, as rates of a jump to the prediction and of a jump to the noise.

With beta = -alpha'/alpha and lambda = -alpha'/(1 - alpha), pi and p the noise law and the prediction at x, and
phi_x = alpha m'_x - alpha' m_x, where m = (1 - alpha) pi is the noise mass (phi = -alpha' pi where pi never moves):

forward          x -> y   phi_y / alpha
reverse, from a leave-one-out prediction nu                          (`eq:reverse-score`, `eq:score-ratio-loo`)
                 x -> y   (phi_x / alpha) (alpha nu_y + m_y) / (alpha nu_x + m_x)
reverse, from a denoiser mu (the linear extension, here for any pi that never moves)
                 x -> y   lambda mu_y + beta (1 - mu_x alpha / (alpha + (1 - alpha) pi_x)) pi_y
max coupling     x -> y   lambda mu_y                                (`prop:uniform-max-coupling-rate`)

beta is infinite at alpha = 0, where a chain that ends with no signal left mixes infinitely fast, and lambda at
alpha = 1, where every remaining jump must happen: rates are for the open interval.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.processes.mixtures import branches
from tokenloom.types import PerPosition

Alpha = Float[Tensor, "batch 1"]
Weights = Float[Tensor, "batch length 3"]


def canonical(alpha: Alpha, phi: PerPosition, mass: PerPosition, p: PerPosition) -> Weights:
    """Reverse rates from a leave-one-out prediction; `mass` is the noise mass at x."""
    total = alpha * p + mass
    share = torch.where(total > 0, phi / total, 0)
    return branches(torch.zeros_like(share), share, share / alpha * (1 - alpha))


def linear(alpha: Alpha, alpha_prime: Alpha, pi: PerPosition, p: PerPosition, others: PerPosition) -> Weights:
    """Reverse rates from a denoiser; `others` is 1 - p, which may be far below the rounding of p."""
    noise = -alpha_prime / alpha * (others + p * (1 - alpha) * pi / (alpha + (1 - alpha) * pi))
    weights = branches(torch.zeros_like(pi), unmasking(alpha, alpha_prime), noise)
    return torch.where((pi > 0).unsqueeze(-1), weights, 0)


def max_coupling(alpha: Alpha, alpha_prime: Alpha) -> Weights:
    """Reverse rates of the maximal coupling."""
    rate = unmasking(alpha, alpha_prime)
    return branches(torch.zeros_like(rate), rate, torch.zeros_like(rate))


def unmasking(alpha: Alpha, alpha_prime: Alpha) -> Alpha:
    """lambda, the hazard of a transition time at t given that it is not after t."""
    return -alpha_prime / (1 - alpha)
