r"""Every law of a step here is a mixture of three atoms per position:

    w_stay [. = x_t]  +  w_prediction nu  +  w_noise w

with weights of shape [batch, length, 3], nu the prediction (a posterior, or clean tokens) and w the noise law.  A draw
picks the branch first and touches the vocabulary only where the prediction is drawn from.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot, pad

from tokenloom.drawing.categorical import draw_each, draw_where, invert, probabilities
from tokenloom.drawing.randomness import Randomness, uniform_pair
from tokenloom.noise.law import Law
from tokenloom.types import PerPosition, StateLogProbs, Tokens

STAY, PREDICTION, NOISE = range(3)


@dataclass(frozen=True)
class Branches:
    """Three weights per position and what each of them multiplies."""

    weights: Float[Tensor, "batch length 3"]
    """The weights of stay, prediction and noise."""
    stay: Int[Tensor, "batch length"]
    """The tokens x_t."""
    prediction: Float[Tensor, "batch length vocab"] | Int[Tensor, "batch length"]
    """Logits of the prediction, or clean tokens."""
    noise: Law
    """The law w."""

    def dense(self) -> Float[Tensor, "batch length states"]:
        """Sum the branches over all states, in float64: where float32 underflows, a logarithm has no gradient."""
        noise_law = self.noise.log_probs(self.stay.device).exp()
        states = noise_law.shape[-1]
        if self.prediction.is_floating_point():
            nu = torch.softmax(self.prediction, -1, dtype=torch.float64)
            nu = pad(nu, (0, states - nu.shape[-1]))
        else:
            nu = one_hot(self.prediction, states).double()
        stay, prediction, noise = (weight.unsqueeze(-1) for weight in self.weights.unbind(-1))
        return (prediction * nu + noise * noise_law).scatter_add(-1, self.stay.unsqueeze(-1), stay.to(nu.dtype))


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
        branch = invert(self.weights, branch_number)
        tokens, where = torch.where(branch == NOISE, self.noise.draw(u), self.stay), branch == PREDICTION
        if not self.prediction.is_floating_point():
            return torch.where(where, self.prediction, tokens)
        if where.is_cpu:  # elsewhere the host would have to wait for their number
            return tokens.masked_scatter(where, draw_where(self.prediction, where, u))
        return torch.where(where, draw_each(self.prediction, u), tokens)


@dataclass(frozen=True)
class Rates(Branches):
    """Jump rates: the weights are rates of a jump to a draw of the prediction or of the noise; nothing stays."""

    def off_diagonal(self) -> Float[Tensor, "batch length states"]:
        """Return the rate from x_t to each other state; 0 at x_t, where a jump changes nothing."""
        return self.dense().scatter(-1, self.stay.unsqueeze(-1), 0.0)

    def elsewhere(self) -> Float[Tensor, "batch length 3"]:
        """Return the rates of jumps that change the token; summed over branches, the rate of leaving x_t."""
        predicted = self._other_tokens().sum(-1)
        leaving = 1 - self.noise.probability_of(self.stay)
        shares = branches(torch.zeros_like(predicted), predicted, leaving)
        return torch.where(shares > 0, self.weights * shares, 0)  # an infinite rate to where it is goes nowhere

    def invert_elsewhere(self, branch_number: PerPosition, u: PerPosition) -> Tokens:
        """Invert two uniform numbers per position into a token other than x_t; x_t where there is no other."""
        rates, others = self.elsewhere(), self._other_tokens()
        possible = rates.sum(-1) > 0
        branch = invert(torch.where(possible.unsqueeze(-1), rates, 1), branch_number)
        predicted = invert(torch.where(others.sum(-1, keepdim=True) > 0, others, 1), u)
        jumped = torch.where(branch == PREDICTION, predicted, self.noise.draw_other(self.stay, u))
        return torch.where(possible, jumped, self.stay)

    def _other_tokens(self) -> Float[Tensor, "batch length vocab"]:
        """Return the prediction's probabilities, with 0 at x_t."""
        known = not self.prediction.is_floating_point()
        nu = one_hot(self.prediction, self.noise.num_states).float() if known else probabilities(self.prediction)
        is_token = self.stay < nu.shape[-1]
        index = torch.where(is_token, self.stay, 0).unsqueeze(-1)
        return nu.scatter(-1, index, torch.where(is_token.unsqueeze(-1), 0, nu.gather(-1, index)))


def branches(stay: Tensor, prediction: Tensor, noise: Tensor) -> Float[Tensor, "batch length 3"]:
    """Stack the three weights, broadcast against each other."""
    return torch.stack(torch.broadcast_tensors(stay, prediction, noise), -1)  # type: ignore[no-untyped-call]
