r"""What every process offers: bridge and rates, derived from its noise law, on top of `corruption.py`.

A process is a forward law in time: q_{t|0} with its schedule.  For the Markov processes here

    q_{t|s}(x_t | x_s) = alpha_{t|s} [x_t = x_s] + (1 - alpha_{t|s}) pi(x_t)

and the type of the endpoint chooses the extension of the bridge and of the reverse rate: a `LeaveOneOut` is plugged
into Bayes' formula, over a `Denoiser` the bridge is averaged, and clean tokens are x_0 itself.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from tokenloom.drawing.randomness import Randomness
from tokenloom.posteriors import Denoiser, OverTokens
from tokenloom.processes import bridges, rates
from tokenloom.processes.corruption import Corruption, Endpoint
from tokenloom.processes.mixtures import STAY, Mixture, Rates, branches
from tokenloom.processes.noise import Noise
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.support.checks import check_order, check_time
from tokenloom.support.log_space import split_probability
from tokenloom.support.registry import Registry
from tokenloom.support.typed import checked
from tokenloom.types import Auxiliary, PerPosition, PerRow, Tokens

Self = TypeVar("Self", bound="Process")


@dataclass(frozen=True)
class Process(Corruption):
    """A forward law with its reversals."""

    @checked
    def with_schedule(self: Self, schedule: Schedule) -> Self:
        """The same process with another schedule.

        Args:
            schedule: The schedule to use.

        Returns:
            A new process.
        """
        return replace(self, schedule=schedule)

    def with_transition_times(self) -> "Process | None":
        """The process with UDM's marginals that shows its network what this one does (MUDM).

        Returns:
            That process, or None where there is none.
        """
        return None

    @property
    def parts(self) -> "tuple[Process, ...]":
        """The processes whose bounds are those of a network trained under this one: itself, or those of a mixture."""
        return (self,)

    # ---------------------------------------------------------------- the auxiliary variable of a lifted process

    @property
    def averaged(self) -> "Process":
        """The process left when the auxiliary variable is averaged out; a process without one is that already."""
        return self

    def resample(self, x_0: Tokens, x_s: Tokens, s: PerRow, generator: Randomness | None = None) -> Auxiliary | None:
        """The auxiliary variable redrawn given x_0 and x_s.

        Args:
            x_0: Clean tokens, or a draw of them.
            x_s: The tokens at time s.
            s: The time of each row.
            generator: Where random numbers come from.

        Returns:
            U or tau; None where the process has no auxiliary variable.

        Raises:
            ValueError: If tokens or times are not those of this process.
        """
        return None

    # ---------------------------------------------------------------- reversal

    @checked
    def bridge(self, noisy: Noisy, s: PerRow, endpoint: Endpoint) -> Mixture:
        """The law of x_s given x_t and the endpoint, for s < t.

        Args:
            noisy: The state x_t.
            s: The earlier time of each row.
            endpoint: A prediction in one of `bridge_takes`, or x_0 itself.

        Returns:
            The law of x_s, to draw from.

        Raises:
            ValueError: If s is not before t, or the process makes no step from such an endpoint.
        """
        self._check_endpoint(noisy, endpoint)
        check_time("s", s, noisy.tokens)
        check_order(s, noisy.t)
        return self._mixture(self._bridge_weights(noisy, s, endpoint), noisy, endpoint, self._noise_before(noisy, s))

    def stay_bound(self, noisy: Noisy, s: PerRow) -> PerPosition:
        """The least probability of staying in `bridge`, whatever is predicted: that of a prediction without x_t.

        A position whose uniform number falls below it stays, and needs no prediction.

        Args:
            noisy: The state x_t.
            s: The earlier time of each row.

        Returns:
            Probabilities in [0, 1].

        Raises:
            ValueError: If s is not before t.
        """
        check_order(s, noisy.t)
        weights = self._bridge_weights(noisy, s, self._other_tokens(noisy))
        return self._hold_given(weights, noisy, 1.0)[..., STAY]

    @checked
    def reverse_rates(self, noisy: Noisy, endpoint: Endpoint) -> Rates:
        """Rates of the chain that runs from t = 1 down to 0.

        Args:
            noisy: The state x_t, with 0 < alpha_t < 1.
            endpoint: A prediction in one of `bridge_takes`, or x_0 itself.

        Returns:
            Jump rates per unit of time.

        Raises:
            ValueError: If the process makes no step from such an endpoint.
        """
        self._check_endpoint(noisy, endpoint)
        weights = self._hold_given(self._rate_weights(noisy, endpoint), noisy, 0.0)
        return Rates(weights, noisy.tokens, self._values(endpoint), self.noise(noisy))

    def rate_bound(self, noisy: Noisy) -> PerPosition:
        """The largest rate of a jump elsewhere, whatever is predicted: that of a prediction without x_t.

        Args:
            noisy: The state x_t, with 0 < alpha_t < 1.

        Returns:
            Rates per unit of time.
        """
        rates_of_others = self.reverse_rates(noisy, self._other_tokens(noisy))
        return rates_of_others.moving().sum(-1)

    def level_after(self, alpha: PerRow, waiting: PerRow) -> PerRow:
        """The level at which the integral of the largest rate, from `alpha` upwards, is `waiting`.

        A position jumps at most at rate lambda + beta (`rates.py`), whose integral is logit(alpha_s) - logit(alpha_t);
        a one-way position at rate lambda, whose integral is log(1 - alpha_t) - log(1 - alpha_s).

        Args:
            alpha: The level of each row, in (0, 1).
            waiting: The integral, positive; exponential numbers make it the time of a jump.

        Returns:
            A level above `alpha`.
        """
        if self.one_way:
            return 1 - (1 - alpha) * torch.exp(-waiting)
        return torch.sigmoid(torch.logit(alpha) + waiting)

    @checked
    def forward_rates(self, noisy: Noisy, x_0: Tokens | None = None) -> Rates:
        """Rates of the noising chain.

        Args:
            noisy: The state x_t.
            x_0: Clean tokens, which only a chain that is not Markov without them reads.

        Returns:
            Jump rates per unit of time.

        Raises:
            ValueError: If the chain needs `x_0`, or has no rates.
        """
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

    def _check_endpoint(self, noisy: Noisy, endpoint: Endpoint) -> None:
        self._check_law_of_clean(noisy, endpoint)
        if isinstance(endpoint, OverTokens) and type(endpoint) not in self.bridge_takes:
            wanted = " or ".join(kind.__name__ for kind in self.bridge_takes)
            raise ValueError(
                f"a step of {type(self).__name__} takes a {wanted}, got {type(endpoint).__name__}; "
                f"convert(prediction, {self.bridge_takes[0].__name__}, x_t, alpha_t, process) first"
            )


PROCESSES: Registry[Process] = Registry("process", "tokenloom.processes", "tokenloom.processes")
