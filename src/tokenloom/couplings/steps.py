r"""The laws of a step: mixtures of three branches per position, from the four numbers of a coupling (`base.py`).

    w_stay [. = x_t]  +  w_prediction nu  +  w_noise w

with weights of shape [batch, length, 3], nu the prediction (a posterior, or clean tokens) and w the noise law.

The functions trust what they are given (a prediction is what `model.interpret` made); `Process` has the same ones with
checks.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot, pad

from tokenloom.couplings.maximal import Maximal
from tokenloom.drawing.categorical import invert
from tokenloom.drawing.randomness import Randomness, uniform_pair
from tokenloom.noise.law import Law
from tokenloom.posteriors import Denoiser, OverTokens
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, StateLogProbs, Tokens

if TYPE_CHECKING:
    from tokenloom.process import Process

Endpoint = OverTokens | Tokens
"""The end of a bridge: x_0 itself, or a law of it."""
STAY, PREDICTION, NOISE = range(3)


@dataclass(frozen=True)
class Branches:
    """Three weights per position and what each of them multiplies."""

    weights: Float[Tensor, "batch length 3"]
    """The weights of stay, prediction and noise."""
    stay: Int[Tensor, "batch length"]
    """The tokens x_t."""
    prediction: Endpoint
    """The prediction, or clean tokens."""
    noise: Law
    """The law w."""

    def dense(self, dtype: torch.dtype = torch.float64) -> Float[Tensor, "batch length states"]:
        """Sum the branches over all states; in float64, as where float32 underflows a logarithm has no gradient."""
        noise_law = self.noise.log_probs(self.stay.device).exp().to(dtype)
        states = noise_law.shape[-1]
        if isinstance(self.prediction, Tensor):
            nu = one_hot(self.prediction, states).to(dtype)
        else:
            nu = torch.softmax(self.prediction.logits, -1, dtype=dtype)
            nu = pad(nu, (0, states - nu.shape[-1]))
        stay, prediction, noise = (weight.unsqueeze(-1).to(dtype) for weight in self.weights.unbind(-1))
        return (prediction * nu + noise * noise_law).scatter_add(-1, self.stay.unsqueeze(-1), stay)


@dataclass(frozen=True)
class Mixture(Branches):
    """A law: the weights sum to 1."""

    def log_probs(self) -> StateLogProbs:
        """Return the law over all states."""
        return self.dense().log()

    def draw(self, generator: Randomness | None = None) -> Tokens:
        """Draw one token per position, from two uniform numbers: one for the branch, one for the token."""
        return self.invert(*uniform_pair(self.stay, generator))

    def invert(self, branch_number: PerPosition, u: PerPosition) -> Tokens:
        """Invert two uniform numbers per position into a draw; a small `branch_number` stays."""
        branch, end = invert(self.weights, branch_number), self.prediction
        predicted = end if isinstance(end, Tensor) else invert(end.probabilities, u)
        return torch.where(branch == PREDICTION, predicted, torch.where(branch == NOISE, self.noise.draw(u), self.stay))


@dataclass(frozen=True)
class Rates(Branches):
    """Jump rates: the weights are rates of a jump to a draw of the prediction or of the noise; nothing stays."""

    def off_diagonal(self) -> Float[Tensor, "batch length states"]:
        """Return the rate from x_t to each other state; 0 at x_t, where a jump changes nothing."""
        return self.dense().scatter(-1, self.stay.unsqueeze(-1), 0.0)

    def elsewhere(self) -> Float[Tensor, "batch length 3"]:
        """Return the rates of jumps that change the token; summed over branches, the rate of leaving x_t."""
        predicted = self._others.sum(-1)
        leaving = 1 - self.noise.probability_of(self.stay)
        shares = branches(torch.zeros_like(predicted), predicted, leaving)
        return torch.where(shares > 0, self.weights * shares, 0)  # an infinite rate to where it is goes nowhere

    def invert_elsewhere(self, branch_number: PerPosition, u: PerPosition) -> Tokens:
        """Invert two uniform numbers per position into a token other than x_t; x_t where there is no other."""
        rates, others = self.elsewhere(), self._others
        possible = rates.sum(-1) > 0
        branch = invert(torch.where(possible.unsqueeze(-1), rates, 1), branch_number)
        predicted = invert(torch.where(others.sum(-1, keepdim=True) > 0, others, 1), u)
        jumped = torch.where(branch == PREDICTION, predicted, self.noise.draw_other(self.stay, u))
        return torch.where(possible, jumped, self.stay)

    @cached_property
    def _others(self) -> Float[Tensor, "batch length vocab"]:
        """Return the prediction's probabilities, with 0 at x_t."""
        if isinstance(self.prediction, Tensor):
            nu = one_hot(self.prediction, self.noise.num_states).float()
        else:
            nu = self.prediction.probabilities
        is_token = self.stay < nu.shape[-1]
        index = torch.where(is_token, self.stay, 0).unsqueeze(-1)
        return nu.scatter(-1, index, torch.where(is_token.unsqueeze(-1), 0, nu.gather(-1, index)))


def branches(stay: Tensor, prediction: Tensor, noise: Tensor) -> Float[Tensor, "batch length 3"]:
    """Stack the three weights, broadcast against each other."""
    return torch.stack(torch.broadcast_tensors(stay, prediction, noise), -1)  # type: ignore[no-untyped-call]


def bridge(process: "Process", noisy: Noisy, s: PerRow, endpoint: Endpoint) -> Mixture:
    """Return the law of x_s given x_t and the endpoint, for s < t; see `Process.bridge`."""
    weights = _weights(process, noisy, endpoint, *process.path.shares(process, noisy, s))
    return Mixture(_held(noisy, *weights, 1.0), noisy.tokens, endpoint, process.masses.law(noisy, s))


def reverse_rates(process: "Process", noisy: Noisy, endpoint: Endpoint) -> Rates:
    """Return rates of the chain that runs from t = 1 down to 0; see `Process.reverse_rates`."""
    _, predicted, noise = _weights(process, noisy, endpoint, *process.path.rates(process, noisy))
    weights = _held(noisy, torch.zeros_like(predicted), predicted, noise, 0.0)
    return Rates(weights, noisy.tokens, endpoint, process.masses.law(noisy, noisy.t))


def marginal(process: "Process", noisy: Noisy, endpoint: Endpoint) -> Mixture:
    """q_{t|0} averaged over the endpoint; see `Process.marginal`."""
    kept = process.path.remains(process, noisy)
    weights = _held(noisy, torch.zeros_like(kept), kept, 1 - kept, 1.0)
    return Mixture(weights, noisy.tokens, endpoint, process.law(noisy))


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


def _weights(
    process: "Process", noisy: Noisy, endpoint: Endpoint, clean: PerPosition, fresh: PerPosition
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
        own, others = endpoint.probability_of(noisy.tokens), endpoint.probability_of_others(noisy.tokens)
        total = torch.where(noise, level + mass, 1)
        return before + fresh * own * level / total, clean, fresh * (others + own * mass / total)
    tokens = noisy.tokens
    own = (endpoint == tokens).double() if isinstance(endpoint, Tensor) else endpoint.probability_of(tokens)
    total = torch.where(noise, level * own + mass, 1)
    stay = torch.where(noise, (level * own + before * mass) / total, 1)
    return stay, clean * mass / total, fresh * mass / total


def _held(noisy: Noisy, stay: Tensor, predicted: Tensor, noise: Tensor, held: float) -> Tensor:
    """Stack the three weights; a given position only stays, with the weight `held`."""
    weights = branches(stay, predicted, noise)
    if noisy.given is None:
        return weights
    return torch.where(noisy.given.unsqueeze(-1), weights.new_tensor([held, 0.0, 0.0]), weights)
