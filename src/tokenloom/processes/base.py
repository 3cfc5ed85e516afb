r"""What every process offers: prior, corruption, bridge and rates, derived from its noise law.

A process is a forward law in time: q_{t|0} with its schedule.  For the Markov processes here

    q_{t|s}(x_t | x_s) = alpha_{t|s} [x_t = x_s] + (1 - alpha_{t|s}) pi(x_t)

and the type of the endpoint chooses the extension of the bridge and of the reverse rate: a `LeaveOneOut` is plugged
into Bayes' formula, over a `Denoiser` the bridge is averaged, and clean tokens are x_0 itself.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser, OverTokens, Posterior, split_probability
from tokenloom.processes import bridges, rates
from tokenloom.processes.forward import ForwardLaw
from tokenloom.processes.mixtures import STAY, Mixture, Rates, branches
from tokenloom.processes.noise import Noise
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.support.checks import (
    check_alpha,
    check_mask,
    check_order,
    check_per_row,
    check_same_shape,
    check_time,
    check_tokens,
)
from tokenloom.support.memory import check_memory
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields, checked
from tokenloom.types import Auxiliary, Flags, PerPosition, PerRow, Tokens

Self = TypeVar("Self", bound="Process")
Endpoint = Posterior | Tokens
"""Where a bridge ends: x_0 itself, or a law of it."""


@dataclass(frozen=True)
class Process(ForwardLaw):
    """A forward law with its reversals."""

    @checked
    def with_schedule(self: Self, schedule: Schedule) -> Self:
        return replace(self, schedule=schedule)

    def with_transition_times(self) -> "Process | None":
        """The process with UDM's marginals that shows its network what this one does (MUDM), or None."""
        return None

    def move_to(self, noisy: Noisy, tokens: Tokens, s: PerRow) -> Noisy:
        """The state after a step to time s: new tokens, everything else carried over."""
        return replace(noisy, tokens=tokens, t=s, alpha_t=self.alpha(s))

    # ---------------------------------------------------------------- the auxiliary variable of a lifted process

    @property
    def averaged(self) -> "Process":
        """The process left when the auxiliary variable is averaged out; a process without one is that already."""
        return self

    def resample(self, x_0: Tokens, x_s: Tokens, s: PerRow, generator: Randomness | None = None) -> Auxiliary | None:
        """The auxiliary variable redrawn given x_0 and x_s."""
        return None

    # ---------------------------------------------------------------- corruption

    def auxiliary(self, x_0: Tokens, generator: Randomness | None) -> Auxiliary | None:
        """The auxiliary variable of a lifted process, drawn from its own law."""
        return None

    @checked
    def corrupt(self, x_0: Tokens, t: PerRow, generator: Randomness | None = None, given: Flags | None = None) -> Noisy:
        """x_t ~ q_{t|0}(. | x_0), with its auxiliary variable; `given` positions stay clean."""
        self.check_clean(x_0, given)
        check_time("t", t, x_0)
        clean = Noisy(x_0, t, self.alpha(t), self.auxiliary(x_0, generator), given)
        return replace(clean, tokens=self.marginal(clean, x_0).draw(generator))

    @checked
    def prior(
        self, batch: int, length: int, generator: Randomness | None = None, device: torch.device | str | None = None
    ) -> Noisy:
        """The state that sampling starts from, at t = 1: nothing of x_0 is left.

        It lies on the generator's device unless another is named.
        """
        check_memory(16 * batch * length, f"a batch of {batch} sequences of length {length}", "draw fewer at a time")
        if device is None:
            device = "cpu" if generator is None else generator.device
        one = torch.ones(batch, device=device, dtype=torch.float64)
        blank = torch.zeros(batch, length, device=device, dtype=torch.int64)
        state = Noisy(blank, one, self.alpha(one), self.auxiliary(blank, generator))
        u = uniform((batch, length), generator, blank.device)
        return replace(state, tokens=self.noise(state).draw(u))

    def prior_divergence(self, noisy: Noisy, x_0: Tokens) -> PerPosition | None:
        """KL(q_{1|0} || pi) of every position, what a bound pays for starting from pi.

        With q = alpha_1 + (1 - alpha_1) pi(x_0), it is q log(q / pi(x_0)) + (1 - q) log(1 - alpha_1).  None where it
        may be infinite, because some token is never noise.
        """
        if self.reveals:
            return None
        alpha = self.alpha(torch.ones_like(noisy.t))[:, None]
        pi = self.noise(noisy).probability_of(x_0).double()
        same = alpha + (1 - alpha) * pi
        price = same * torch.log1p(alpha * (1 - pi) / pi) + (1 - same) * torch.log1p(-alpha)
        return torch.where(alpha > 0, price, 0)  # no signal is left, whatever pi says of x_0

    @checked
    def marginal(self, noisy: Noisy, endpoint: Endpoint) -> Mixture:
        """q_{t|0} averaged over the endpoint, at the time of `noisy`: alpha_t nu + (1 - alpha_t) pi."""
        self._check_law_of_clean(noisy, endpoint)
        kept = self._kept(noisy)
        return self._mixture(branches(torch.zeros_like(kept), kept, 1 - kept), noisy, endpoint, self.noise(noisy))

    def _kept(self, noisy: Noisy) -> PerPosition:
        """The probability that a position still has its clean token."""
        return noisy.alpha_t[:, None].expand_as(noisy.tokens)

    @checked
    def forward(self, noisy: Noisy, t: PerRow) -> Mixture:
        """q_{t|s}(. | x_s) from the state `noisy` at s to a later t; there is none where the chain is not Markov."""
        if not self.markov:
            raise ValueError(
                f"{type(self).__name__} is not Markov: x_t depends on x_0 beyond x_s; use corrupt(x_0, t) instead"
            )
        check_time("t", t, noisy.tokens)
        check_order(noisy.t, t, "forward")
        kept, lost = bridges.survival(noisy.alpha_t[:, None], self.alpha(t)[:, None])
        weights = branches(kept, torch.zeros_like(kept), lost).expand(*noisy.tokens.shape, 3)
        return self._mixture(weights, noisy, noisy.tokens, self._noise_until(noisy, t))

    # ---------------------------------------------------------------- reversal

    @checked
    def bridge(self, noisy: Noisy, s: PerRow, endpoint: Endpoint) -> Mixture:
        """The law of x_s given x_t and the endpoint, for s < t."""
        self._check_endpoint(noisy, endpoint)
        check_time("s", s, noisy.tokens)
        check_order(s, noisy.t)
        return self._mixture(self._bridge_weights(noisy, s, endpoint), noisy, endpoint, self._noise_before(noisy, s))

    def stay_bound(self, noisy: Noisy, s: PerRow) -> PerPosition:
        """The least probability of staying in `bridge`, whatever is predicted: that of a prediction without x_t.

        A position whose uniform number falls below it stays, and needs no prediction.
        """
        check_order(s, noisy.t)
        weights = self._bridge_weights(noisy, s, self._other_tokens(noisy))
        return self._hold_given(weights, noisy, 1.0)[..., STAY]

    @checked
    def reverse_rates(self, noisy: Noisy, endpoint: Endpoint) -> Rates:
        """Rates of the chain that runs from t = 1 down to 0, given a prediction or (clean tokens) given x_0."""
        self._check_endpoint(noisy, endpoint)
        weights = self._hold_given(self._rate_weights(noisy, endpoint), noisy, 0.0)
        return Rates(weights, noisy.tokens, self._values(endpoint), self.noise(noisy))

    def rate_bound(self, noisy: Noisy) -> PerPosition:
        """The largest rate of a jump elsewhere, whatever is predicted: that of a prediction without x_t."""
        rates_of_others = self.reverse_rates(noisy, self._other_tokens(noisy))
        return rates_of_others.moving().sum(-1)

    def level_after(self, alpha: PerRow, waiting: PerRow) -> PerRow:
        """The level at which the integral of the largest rate, from `alpha` upwards, is `waiting`.

        A position jumps at most at rate lambda + beta (`rates.py`), whose integral is logit(alpha_s) - logit(alpha_t);
        a one-way position at rate lambda, whose integral is log(1 - alpha_t) - log(1 - alpha_s).
        """
        if self.one_way:
            return 1 - (1 - alpha) * torch.exp(-waiting)
        return torch.sigmoid(torch.logit(alpha) + waiting)

    @checked
    def forward_rates(self, noisy: Noisy, x_0: Tokens | None = None) -> Rates:
        """Rates of the noising chain; `x_0` only matters to a chain that is not Markov without it."""
        beta = (-self.alpha_prime(noisy.t) / noisy.alpha_t)[:, None].expand_as(noisy.tokens)
        weights = branches(torch.zeros_like(beta), torch.zeros_like(beta), beta)
        return Rates(self._hold_given(weights, noisy, 0.0), noisy.tokens, noisy.tokens, self._jump_noise(noisy))

    def _bridge_weights(self, noisy: Noisy, s: PerRow, endpoint: Endpoint) -> bridges.Weights:
        alpha_s, alpha_t = self.alpha(s)[:, None], noisy.alpha_t[:, None]
        p, others = self._split(noisy, endpoint)
        if isinstance(endpoint, Denoiser):
            return bridges.barycentric(alpha_s, alpha_t, self.noise(noisy).probability_of(noisy.tokens), p, others)
        return bridges.canonical(alpha_s, alpha_t, *self._noise_history(noisy, s), p)

    def _rate_weights(self, noisy: Noisy, endpoint: Endpoint) -> rates.Weights:
        alpha = noisy.alpha_t[:, None]
        pi = self.noise(noisy).probability_of(noisy.tokens)
        p, others = self._split(noisy, endpoint)
        if isinstance(endpoint, Denoiser):
            return rates.linear(alpha, self.alpha_prime(noisy.t)[:, None], pi, p, others)
        return rates.canonical(alpha, self._arrival_rate(noisy), (1 - alpha) * pi, p)

    # ---------------------------------------------------------------- noise that may move with t

    def _noise_before(self, noisy: Noisy, s: PerRow) -> Noise:
        """pi_s, for an earlier s."""
        return self.noise(noisy)

    def _noise_until(self, noisy: Noisy, t: PerRow) -> Noise:
        """What a token lost between the state's time and a later t is at t."""
        return self.noise(noisy)

    def _jump_noise(self, noisy: Noisy) -> Noise:
        """What a token lost just now becomes."""
        return self.noise(noisy)

    def _noise_history(self, noisy: Noisy, s: PerRow) -> tuple[PerPosition, PerPosition]:
        """kept m_s and m_t - kept m_s at x_t (`bridges.py`): the noise that was there at s, and what came after."""
        alpha_s = self.alpha(s)[:, None]
        kept, lost = bridges.survival(alpha_s, noisy.alpha_t[:, None])
        pi = self.noise(noisy).probability_of(noisy.tokens)
        return kept * (1 - alpha_s) * pi, lost * pi

    def _arrival_rate(self, noisy: Noisy) -> PerPosition:
        """phi of `rates.py` at x_t."""
        return -self.alpha_prime(noisy.t)[:, None] * self.noise(noisy).probability_of(noisy.tokens)

    # ---------------------------------------------------------------- shared parts

    def _other_tokens(self, noisy: Noisy) -> Tokens:
        """Some clean token other than x_t at every position."""
        other = (noisy.tokens + 1) % self.vocab_size
        mask = self.mask_in_vocabulary
        return other if mask is None else torch.where(other == mask, (other + 1) % self.vocab_size, other)

    def _split(self, noisy: Noisy, endpoint: Endpoint) -> tuple[PerPosition, PerPosition]:
        """The endpoint's mass at x_t and elsewhere."""
        if isinstance(endpoint, torch.Tensor):
            same = (endpoint == noisy.tokens).to(noisy.alpha_t.dtype)
            return same, 1 - same
        return split_probability(self._values(endpoint), noisy.tokens)

    def _values(self, endpoint: Endpoint) -> torch.Tensor:
        """Logits, or clean tokens."""
        if isinstance(endpoint, OverTokens):
            return self.restrict(endpoint.logits)
        if isinstance(endpoint, torch.Tensor):
            return endpoint
        raise ValueError(
            f"a step takes a Denoiser, a LeaveOneOut or clean tokens, got {type(endpoint).__name__}; convert it first"
        )

    def _mixture(self, weights: bridges.Weights, noisy: Noisy, endpoint: Endpoint, noise: Noise) -> Mixture:
        return Mixture(self._hold_given(weights, noisy, 1.0), noisy.tokens, self._values(endpoint), noise)

    def _hold_given(self, weights: bridges.Weights, noisy: Noisy, stay: float) -> bridges.Weights:
        """The weights, where given positions do nothing but stay."""
        if noisy.given is None:
            return weights
        held = branches(*(torch.full_like(weights[..., 0], weight) for weight in (stay, 0.0, 0.0)))
        return torch.where(noisy.given.unsqueeze(-1), held, weights)

    # ---------------------------------------------------------------- checks

    def check_clean(self, x_0: Tokens, given: Flags | None = None) -> None:
        """Raise unless x_0 is clean data of this process."""
        check_tokens("x_0", x_0, self.vocab_size, forbidden=self.mask_in_vocabulary)
        if given is not None:
            check_mask("given", given, x_0)

    def check_state(self, noisy: Noisy) -> None:
        """Raise unless this is a state of this process."""
        check_fields(noisy)
        check_tokens("x_t", noisy.tokens, self.num_states)
        check_per_row("t", noisy.t, noisy.tokens)
        check_alpha("alpha_t", noisy.alpha_t, noisy.tokens)
        if noisy.aux is not None:
            check_same_shape("aux", noisy.aux, noisy.tokens)
            if not noisy.aux.is_floating_point():
                check_tokens("aux", noisy.aux, self.vocab_size)
        if noisy.given is not None:
            check_mask("given", noisy.given, noisy.tokens)

    def _check_endpoint(self, noisy: Noisy, endpoint: Endpoint) -> None:
        self._check_law_of_clean(noisy, endpoint)
        if isinstance(endpoint, OverTokens) and type(endpoint) not in self.bridge_takes:
            wanted = " or ".join(kind.__name__ for kind in self.bridge_takes)
            raise ValueError(
                f"a step of {type(self).__name__} takes a {wanted}, got {type(endpoint).__name__}; "
                f"convert(prediction, {self.bridge_takes[0].__name__}, x_t, alpha_t, process) first"
            )

    def _check_law_of_clean(self, noisy: Noisy, endpoint: Endpoint) -> None:
        """Raise unless the endpoint is clean tokens, or a law of them, for this state."""
        self.check_state(noisy)
        if isinstance(endpoint, torch.Tensor):
            self.check_clean(endpoint)
            check_same_shape("x_0", endpoint, noisy.tokens)
        else:
            endpoint.check(noisy, self)


PROCESSES: Registry[Process] = Registry("process", "tokenloom.processes", "tokenloom.processes")
