r"""The laws of a step, from the four numbers of a coupling (`base.py`), as mixtures of three branches per position.

These functions trust what they are given (a prediction is what `model.interpret` made); `Process` has the same ones
with checks.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tokenloom.couplings.maximal import Maximal
from tokenloom.couplings.mixtures import Mixture, Rates, branches
from tokenloom.drawing.log_space import split_probability
from tokenloom.posteriors import Denoiser, OverTokens, Posterior
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, Tokens

if TYPE_CHECKING:
    from tokenloom.process import Process

Endpoint = Posterior | Tokens
"""The end of a bridge: x_0 itself, or a law of it."""


def bridge(process: "Process", noisy: Noisy, s: PerRow, endpoint: Endpoint) -> Mixture:
    """Return the law of x_s given x_t and the endpoint, for s < t; see `Process.bridge`."""
    values = _values(endpoint)
    weights = _weights(process, noisy, endpoint, values, *process.path.shares(process, noisy, s))
    return Mixture(_held(noisy, *weights, 1.0), noisy.tokens, values, process.masses.law(noisy, s))


def reverse_rates(process: "Process", noisy: Noisy, endpoint: Endpoint) -> Rates:
    """Return rates of the chain that runs from t = 1 down to 0; see `Process.reverse_rates`."""
    values = _values(endpoint)
    _, predicted, noise = _weights(process, noisy, endpoint, values, *process.path.rates(process, noisy))
    held = _held(noisy, torch.zeros_like(predicted), predicted, noise, 0.0)
    return Rates(held, noisy.tokens, values, process.masses.law(noisy, noisy.t))


def marginal(process: "Process", noisy: Noisy, endpoint: Endpoint) -> Mixture:
    """q_{t|0} averaged over the endpoint; see `Process.marginal`."""
    values = _values(endpoint)
    kept = process.path.remains(process, noisy)
    weights = _held(noisy, torch.zeros_like(kept), kept, 1 - kept, 1.0)
    return Mixture(weights, noisy.tokens, values, process.law(noisy))


def forward(process: "Process", noisy: Noisy, t: PerRow) -> Mixture:
    """q_{t|s}(. | x_s), from a state at s to a later time; see `Process.forward`."""
    kept, law = process.chain.kept(process, noisy, t)
    weights = _held(noisy, kept, torch.zeros_like(kept), 1 - kept, 1.0)
    return Mixture(weights, noisy.tokens, noisy.tokens, law)


def forward_rates(process: "Process", noisy: Noisy, x_0: Tokens | None = None) -> Rates:
    """Return rates of the noising chain; the maximal coupling needs x_0."""
    if isinstance(process.coupling, Maximal) and x_0 is not None:
        rate, law = process.coupling.loss_rate_given(process, noisy, x_0)
    else:
        rate, law = process.chain.loss_rate(process, noisy)
    nothing = torch.zeros_like(rate)
    return Rates(_held(noisy, nothing, nothing, rate, 0.0), noisy.tokens, noisy.tokens, law)


def stay_bound(process: "Process", noisy: Noisy, s: PerRow) -> PerPosition:
    """Return the least probability of staying in `bridge`, whatever is predicted: 1 - a - b, where x_t may be noise.

    A position whose uniform number falls below it stays, and needs no prediction.
    """
    clean, fresh = process.path.shares(process, noisy, s)
    return torch.where(movable(process, noisy), 1 - clean - fresh, 1)


def rate_bound(process: "Process", noisy: Noisy) -> PerPosition:
    """Return the largest rate of a jump, jumps to x_t itself included, whatever is predicted."""
    clean, fresh = process.path.rates(process, noisy)
    return torch.where(movable(process, noisy), clean + fresh, 0)


def movable(process: "Process", noisy: Noisy) -> Tensor:
    """Return flags of the positions whose token may be noise; the others are clean or given, and stay."""
    noise = process.path.mass(process, noisy) > 0
    return noise if noisy.given is None else noise & ~noisy.given


def _values(endpoint: Endpoint) -> Tensor:
    """Return the logits of a law of clean tokens, or clean tokens."""
    return endpoint.logits if isinstance(endpoint, OverTokens) else endpoint  # type: ignore[return-value]


def _weights(
    process: "Process", noisy: Noisy, endpoint: Endpoint, values: Tensor, clean: PerPosition, fresh: PerPosition
) -> tuple[PerPosition, PerPosition, PerPosition]:
    """Return the weights of staying, prediction and noise of `base.py`, from a and b or from their derivatives.

    Staying is a sum of what is known not to be lost and of what was lost before s: no difference of near numbers.
    """
    level, mass = process.path.level(process, noisy), process.path.mass(process, noisy)
    noise = mass > 0
    clean, fresh = torch.where(noise, clean, 0), torch.where(noise, fresh, 0)
    before = (1 - clean - fresh).clamp(min=0)
    if isinstance(endpoint, Denoiser):
        if process.one_way:  # no noise is drawn, so x_t's own probability does not matter
            return before, clean, fresh
        own, others = split_probability(values, noisy.tokens)
        total = torch.where(noise, level + mass, 1)
        return before + fresh * own * level / total, clean, fresh * (others + own * mass / total)
    if isinstance(endpoint, Tensor):
        own = (endpoint == noisy.tokens).double()
    else:
        own, _ = split_probability(values, noisy.tokens)
    total = torch.where(noise, level * own + mass, 1)
    stay = torch.where(noise, (level * own + before * mass) / total, 1)
    return stay, clean * mass / total, fresh * mass / total


def _held(noisy: Noisy, stay: Tensor, predicted: Tensor, noise: Tensor, held: float) -> Tensor:
    """Stack the three weights; a given position only stays, with the weight `held`."""
    weights = branches(stay, predicted, noise)
    if noisy.given is None:
        return weights
    return torch.where(noisy.given.unsqueeze(-1), weights.new_tensor([held, 0.0, 0.0]), weights)
