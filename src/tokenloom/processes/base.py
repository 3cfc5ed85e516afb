r"""What every process offers: prior, corruption, bridge and rates, derived from its noise law.

A process is a forward law in time: q_{t|0} with its schedule.  For the Markov processes here

    q_{t|s}(x_t | x_s) = alpha_{t|s} [x_t = x_s] + (1 - alpha_{t|s}) pi(x_t)

and the type of the prediction chooses the extension of the bridge and of the reverse rate: a `LeaveOneOut` is plugged
into Bayes' formula, over a `Denoiser` the bridge is averaged, and clean tokens are taken as they are.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from tokenloom import bridges, rates
from tokenloom.checks import (
    check_alpha,
    check_mask,
    check_order,
    check_per_row,
    check_same_shape,
    check_time,
    check_tokens,
)
from tokenloom.forward import ForwardLaw
from tokenloom.mixtures import STAY, Mixture, Rates, branches
from tokenloom.posteriors import Denoiser, OverTokens, Posterior, split_probability
from tokenloom.randomness import Randomness, uniform
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.types import Auxiliary, Flags, PerPosition, PerRow, Tokens

Self = TypeVar("Self", bound="Process")
Prediction = Posterior | Tokens


@dataclass(frozen=True)
class Process(ForwardLaw):
    """A forward law with its reversals."""

    def with_schedule(self: Self, schedule: Schedule) -> Self:
        return replace(self, schedule=schedule)

    def alpha(self, t: PerRow) -> PerRow:
        """alpha_t in float64: a number a row costs nothing, and a step of 1/1000 in float32 would be off by 1e-4."""
        return self.schedule.alpha(t.double())

    def alpha_prime(self, t: PerRow) -> PerRow:
        """d alpha / dt, in float64."""
        return self.schedule.alpha_prime(t.double())

    def arrive(self, noisy: Noisy, tokens: Tokens, s: PerRow) -> Noisy:
        """The state after a step to time s: new tokens, everything else carried over."""
        return replace(noisy, tokens=tokens, t=s, alpha_t=self.alpha(s))

    # ---------------------------------------------------------------- corruption

    @property
    def mask_in_vocabulary(self) -> int | None:
        """The id that clean data may not contain, if there is one inside the vocabulary."""
        return None

    def auxiliary(self, x_0: Tokens, generator: Randomness | None) -> Auxiliary | None:
        """The auxiliary variable of a lifted process, drawn from its own law."""
        return None

    def corrupt(self, x_0: Tokens, t: PerRow, generator: Randomness | None = None, fixed: Flags | None = None) -> Noisy:
        """x_t ~ q_{t|0}(. | x_0), with its auxiliary variable; `fixed` positions stay clean."""
        self.check_clean(x_0, fixed)
        check_time("t", t, x_0)
        clean = Noisy(x_0, t, self.alpha(t), self.auxiliary(x_0, generator), fixed)
        return replace(clean, tokens=self.marginal(clean, x_0).draw(generator))

    def prior(
        self, batch: int, length: int, generator: Randomness | None = None, device: torch.device | str | None = None
    ) -> Noisy:
        """The state that sampling starts from, at t = 1: nothing of x_0 is left.

        It lies on the generator's device unless another is named.
        """
        if device is None:
            device = "cpu" if generator is None else generator.device
        one = torch.ones(batch, device=device, dtype=torch.float64)
        blank = torch.zeros(batch, length, device=device, dtype=torch.int64)
        state = Noisy(blank, one, self.alpha(one), self.auxiliary(blank, generator))
        u = uniform((batch, length), generator, blank.device)
        return replace(state, tokens=self.noise(state).draw(u))

    def marginal(self, noisy: Noisy, prediction: Prediction) -> Mixture:
        """q_{t|0} averaged over the prediction, at the time of `noisy`: alpha_t nu + (1 - alpha_t) pi."""
        alpha = noisy.alpha_t[:, None].expand_as(noisy.tokens)
        weights = branches(torch.zeros_like(alpha), alpha, 1 - alpha)
        return self._mixture(weights, noisy, prediction)

    def forward(self, noisy: Noisy, t: PerRow) -> Mixture:
        """q_{t|s}(. | x_s) from the state `noisy` at s to a later t."""
        check_time("t", t, noisy.tokens)
        check_order(noisy.t, t, "forward")
        kept, lost = bridges.survival(noisy.alpha_t[:, None], self.alpha(t)[:, None])
        weights = branches(kept, torch.zeros_like(kept), lost).expand(*noisy.tokens.shape, 3)
        return self._mixture(weights, noisy, noisy.tokens)

    # ---------------------------------------------------------------- reversal

    def bridge(self, noisy: Noisy, s: PerRow, prediction: Prediction) -> Mixture:
        """The law of x_s given x_t and the prediction, for s < t."""
        self._check_step(noisy, s, prediction)
        return self._mixture(self._bridge_weights(noisy, s, prediction), noisy, prediction)

    def stay_bound(self, noisy: Noisy, s: PerRow) -> PerPosition:
        """The least probability of staying in `bridge`, whatever is predicted: that of a prediction without x_t.

        A position whose uniform number falls below it stays, and needs no prediction.
        """
        check_order(s, noisy.t)
        weights = self._bridge_weights(noisy, s, self._other_tokens(noisy))
        return self._hold_fixed(weights, noisy, 1.0)[..., STAY]

    def rate_bound(self, noisy: Noisy) -> PerPosition:
        """The largest total rate of `reverse_rates`, whatever is predicted."""
        weights = self._rate_weights(noisy, self._other_tokens(noisy))
        return self._hold_fixed(weights, noisy, 0.0).sum(-1)

    def _other_tokens(self, noisy: Noisy) -> Tokens:
        return (noisy.tokens + 1) % self.vocab_size

    def reverse_rates(self, noisy: Noisy, prediction: Prediction) -> Rates:
        """Rates of the chain that runs from t = 1 down to 0, given the prediction or (clean tokens) given x_0."""
        self._check_prediction(noisy, prediction)
        weights = self._rate_weights(noisy, prediction)
        return Rates(self._hold_fixed(weights, noisy, 0.0), noisy.tokens, self._values(prediction), self.noise(noisy))

    def forward_rates(self, noisy: Noisy, x_0: Tokens | None = None) -> Rates:
        """Rates of the noising chain; `x_0` only matters to a chain that is not Markov without it."""
        beta = (-self.alpha_prime(noisy.t) / noisy.alpha_t)[:, None].expand_as(noisy.tokens)
        weights = branches(torch.zeros_like(beta), torch.zeros_like(beta), beta)
        return Rates(self._hold_fixed(weights, noisy, 0.0), noisy.tokens, noisy.tokens, self.noise(noisy))

    def _bridge_weights(self, noisy: Noisy, s: PerRow, prediction: Prediction) -> bridges.Weights:
        alpha_s, alpha_t = self.alpha(s)[:, None], noisy.alpha_t[:, None]
        pi = self.noise(noisy).probability_of(noisy.tokens)
        p, others = self._split(noisy, prediction)
        if isinstance(prediction, Denoiser):
            return bridges.barycentric(alpha_s, alpha_t, pi, p, others)
        return bridges.canonical(alpha_s, alpha_t, pi, p)

    def _rate_weights(self, noisy: Noisy, prediction: Prediction) -> rates.Weights:
        alpha, alpha_prime = noisy.alpha_t[:, None], self.alpha_prime(noisy.t)[:, None]
        pi = self.noise(noisy).probability_of(noisy.tokens)
        p, others = self._split(noisy, prediction)
        if isinstance(prediction, Denoiser):
            return rates.linear(alpha, alpha_prime, pi, p, others)
        return rates.canonical(alpha, alpha_prime, pi, p)

    # ---------------------------------------------------------------- shared parts

    def _split(self, noisy: Noisy, prediction: Prediction) -> tuple[PerPosition, PerPosition]:
        """The prediction's mass at x_t and elsewhere."""
        if isinstance(prediction, torch.Tensor):
            same = (prediction == noisy.tokens).to(noisy.alpha_t.dtype)
            return same, 1 - same
        return split_probability(self._values(prediction), noisy.tokens)

    def _values(self, prediction: Prediction) -> torch.Tensor:
        """Logits, or clean tokens."""
        if isinstance(prediction, OverTokens):
            return self.restrict(prediction.logits)
        if isinstance(prediction, torch.Tensor):
            return prediction
        raise ValueError(
            f"a step takes a Denoiser, a LeaveOneOut or clean tokens, got {type(prediction).__name__}; convert it first"
        )

    def _mixture(self, weights: bridges.Weights, noisy: Noisy, prediction: Prediction) -> Mixture:
        weights = self._hold_fixed(weights, noisy, 1.0)
        return Mixture(weights, noisy.tokens, self._values(prediction), self.noise(noisy))

    def _hold_fixed(self, weights: bridges.Weights, noisy: Noisy, stay: float) -> bridges.Weights:
        """Given positions do nothing but stay."""
        if noisy.fixed is None:
            return weights
        held = branches(*(torch.full_like(weights[..., 0], weight) for weight in (stay, 0.0, 0.0)))
        return torch.where(noisy.fixed.unsqueeze(-1), held, weights)

    def _check_step(self, noisy: Noisy, s: PerRow, prediction: Prediction) -> None:
        self._check_prediction(noisy, prediction)
        check_time("s", s, noisy.tokens)
        check_order(s, noisy.t)

    def check_clean(self, x_0: Tokens, fixed: Flags | None = None) -> None:
        """Raise unless x_0 is clean data of this process."""
        check_tokens("x_0", x_0, self.vocab_size, forbidden=self.mask_in_vocabulary)
        if fixed is not None:
            check_mask("fixed", fixed, x_0)

    def check_state(self, noisy: Noisy) -> None:
        """Raise unless this is a state of this process."""
        check_tokens("x_t", noisy.tokens, self.num_states)
        check_per_row("t", noisy.t, noisy.tokens)
        check_alpha("alpha_t", noisy.alpha_t, noisy.tokens)
        if noisy.aux is not None:
            check_same_shape("aux", noisy.aux, noisy.tokens)
            if not noisy.aux.is_floating_point():
                check_tokens("aux", noisy.aux, self.vocab_size)
        if noisy.fixed is not None:
            check_mask("fixed", noisy.fixed, noisy.tokens)

    def _check_prediction(self, noisy: Noisy, prediction: Prediction) -> None:
        self.check_state(noisy)
        if isinstance(prediction, torch.Tensor):
            self.check_clean(prediction)
            check_same_shape("x_0", prediction, noisy.tokens)
        else:
            prediction.check(noisy, self)
