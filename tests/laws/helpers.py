"""States to check a law on: every sequence at once, at a chosen noise level."""

import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tokenloom.posteriors import Posterior

TOLERANCE = 1e-10
EXACT = tl.LinearSchedule(eps=0.0)
"""alpha = 1 - t, so that times and levels translate by hand."""


def every_state(states: int, length: int, alpha: float, aux: Tensor | None = None) -> tl.Noisy:
    tokens = brute.sequences(states, length)
    level = torch.full((len(tokens),), alpha, dtype=torch.float64)
    return tl.Noisy(tokens, 1 - level, level, aux)


def time(alpha: float, noisy: tl.Noisy) -> Tensor:
    return torch.full_like(noisy.t, 1 - alpha)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


def probabilities(posterior: Posterior) -> Tensor:
    assert isinstance(posterior, tl.Denoiser | tl.LeaveOneOut)
    return posterior.log_probs.exp()


def assert_lifted_step(kernel: Tensor, before: Tensor, after: Tensor, reverse: Tensor) -> None:
    """sum_a p(a_t | x_t) p(x_s, a_s | x_t, a_t) = p(x_s | x_t) p(a_s | x_s), a the auxiliary variable."""
    assert_close(torch.einsum("ta,tasb->tsb", before, kernel), reverse.unsqueeze(-1) * after)
