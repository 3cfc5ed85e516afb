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


def assert_close(actual: Tensor, expected: Tensor, law: str = "the law of this test") -> None:
    """Equal to 1e-10; a failure names the law, by the paper's equation where it has one."""
    torch.testing.assert_close(
        actual, expected, rtol=TOLERANCE, atol=TOLERANCE, msg=lambda text: f"{law} is broken: {text}"
    )


def close(actual: Tensor, expected: Tensor, law: str) -> None:
    """Equal to 1e-12, for laws by enumeration; a failure names the law."""
    worst = float((actual - expected).abs().max())
    assert worst < 1e-12, f"{law} is broken by {worst:.1e}"


def close_to_conditional(found: Tensor, table: Tensor, law: str) -> None:
    """A law is the table normalised over its last dimension, wherever that has any mass."""
    possible = table.sum(-1) > 0
    close(found[possible], (table / table.sum(-1, keepdim=True))[possible], law)


def probabilities(posterior: Posterior) -> Tensor:
    assert isinstance(posterior, tl.Denoiser | tl.LeaveOneOut)
    return posterior.log_probs.exp()
