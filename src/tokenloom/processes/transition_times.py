r"""Masked uniform diffusion (MUDM): each position carries the time tau at which it loses its token.

    P(tau < t) = 1 - alpha_t,    x_t = x_0 if tau > t, a uniform token kept ever after if tau <= t.

Averaged over tau the marginals are UDM's.  Given tau, hide the lost tokens behind the mask, x~_t(tau): the posterior is
the denoiser of a *masked* model at x~_t (`lem:mudm-denoiser-equivalence`), so an unmodified MDM network works.
Redrawing

    tau_s | x_0, x_s  ~  -alpha'_tau / (1 - alpha_s) on tau <= s                                        if x_s != x_0,
                         -alpha'_tau ([tau <= s] + K [tau > s]) / (1 + (K - 1) alpha_s)                 if x_s = x_0

after each step of the *uniform* bridge recovers the reverse chain of UDM (`eq:mudm-tau-cond-x0-xs`).
Since alpha_tau is uniform on [0, 1], each piece is `inverse` of a uniform number on an interval of alpha.
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser, Posterior
from tokenloom.processes import bridges, rates
from tokenloom.processes.base import PROCESSES
from tokenloom.processes.corruption import Endpoint
from tokenloom.processes.forward import evidence_of, reveal_level
from tokenloom.processes.mask import HasMask
from tokenloom.processes.mixtures import Mixture, Rates, branches
from tokenloom.processes.noise import Noise, UniformNoise
from tokenloom.processes.uniform import Uniform
from tokenloom.state import NetworkInput, Noisy
from tokenloom.support.checks import check_order, check_time, check_tokens
from tokenloom.support.typed import checked
from tokenloom.types import Auxiliary, Flags, PerPosition, PerRow, Tokens


@PROCESSES.register("transition-times")
@dataclass(frozen=True)
class MaskedUniform(HasMask):
    """MUDM on K tokens; `aux` of a state holds the transition times tau, the mask only appears in `masked_view`."""

    default_predicts = Denoiser
    bridge_takes = (Denoiser,)
    lifted = uniform_noise = one_way = all_or_nothing = True
    has_jump_rates = False  # given tau, a token jumps exactly then

    @property
    def averaged(self) -> Uniform:
        return Uniform(self.vocab_size, schedule=self.schedule)

    def with_transition_times(self) -> "MaskedUniform":
        return self

    @property
    def reveals(self) -> bool:
        return True

    @property
    def input_states(self) -> int:
        return max(self.num_states, self.mask + 1)

    def bound(self, predicts: type[Posterior]) -> str:
        raise ValueError("MaskedUniform has no bound of its own; score and train its network under Masked")

    def noise(self, noisy: Noisy) -> Noise:
        return UniformNoise(self.vocab_size, noisy.tokens.device, noisy.alpha_t.dtype)

    def network_input(self, noisy: Noisy) -> NetworkInput:
        return replace(super().network_input(noisy), tokens=self.masked_view(noisy))

    def masked_view(self, noisy: Noisy) -> Tokens:
        """x~_t(tau): what a masked network is shown.

        Args:
            noisy: The state x_t with its times tau.

        Returns:
            Tokens, with the mask where tau <= t.
        """
        return noisy.tokens.masked_fill(self.lost(noisy), self.mask)

    def lost(self, noisy: Noisy) -> Flags:
        """Flags of tau <= t.

        Args:
            noisy: The state x_t with its times tau.

        Returns:
            Flags; False at given positions.
        """
        lost = _times(noisy) <= noisy.t[:, None]
        return lost if noisy.given is None else lost & ~noisy.given

    def auxiliary(self, x_0: Tokens, generator: Randomness | None) -> Auxiliary | None:
        return self.schedule.inverse(uniform(tuple(x_0.shape), generator, x_0.device))

    def prior(
        self, batch: int, length: int, generator: Randomness | None = None, device: torch.device | str | None = None
    ) -> Noisy:
        """Uniform tokens, with tau drawn given tau <= 1: at t = 1 every token is lost."""
        state = super().prior(batch, length, generator, device)
        u = uniform((batch, length), generator, state.tokens.device)
        alpha_1 = state.alpha_t[:, None]
        return replace(state, aux=self.schedule.inverse(alpha_1 + (1 - alpha_1) * u).clamp(max=1))

    def evidence(self, noisy: Noisy) -> PerPosition:
        """A lost token says nothing, any other everything."""
        return evidence_of(~self.lost(noisy), noisy)

    def own_alpha(self, noisy: Noisy) -> PerPosition:
        """Given tau, a position either has its token still or has lost it."""
        return reveal_level((~self.lost(noisy)).to(noisy.alpha_t.dtype), noisy)

    def _kept(self, noisy: Noisy) -> PerPosition:
        return (~self.lost(noisy)).to(noisy.alpha_t.dtype)

    @checked
    def forward(self, noisy: Noisy, t: PerRow) -> Mixture:
        check_time("t", t, noisy.tokens)
        check_order(noisy.t, t, "forward")
        later = replace(noisy, t=t)
        jump = (self.lost(later) & ~self.lost(noisy)).to(noisy.alpha_t.dtype)
        return self._mixture(branches(1 - jump, torch.zeros_like(jump), jump), noisy, noisy.tokens, self.noise(noisy))

    @checked
    def forward_rates(self, noisy: Noisy, x_0: Tokens | None = None) -> Rates:
        """The hazard of tau at t where it has not come yet; a lost token rests."""
        moving = super().forward_rates(noisy, x_0)
        return replace(moving, weights=moving.weights * ~self.lost(noisy).unsqueeze(-1))

    def resample(self, x_0: Tokens, x_s: Tokens, s: PerRow, generator: Randomness | None = None) -> Auxiliary:
        """tau_s given x_0 and x_s."""
        check_tokens("x_0", x_0, self.vocab_size)
        check_tokens("x_s", x_s, self.vocab_size)
        check_time("s", s, x_s)
        shape, device = tuple(x_s.shape), x_s.device
        alpha, bound = self.alpha(s)[:, None], s[:, None]
        lost = uniform(shape, generator, device) < self.probability_lost(x_0, x_s, s)
        u = uniform(shape, generator, device)
        before = self.schedule.inverse(alpha + (1 - alpha) * u).minimum(bound)
        after = self.schedule.inverse(alpha * u).maximum(bound.nextafter(bound + 1))
        return torch.where(lost, before, after)

    def probability_lost(self, x_0: Tokens, x_s: Tokens, s: PerRow) -> PerPosition:
        """P(tau_s <= s | x_0, x_s): 1 where the token changed, else (1 - alpha_s) / (1 + (K - 1) alpha_s).

        Args:
            x_0: Clean tokens, or a draw of them.
            x_s: The tokens at time s.
            s: The time of each row.

        Returns:
            Probabilities.
        """
        alpha = self.alpha(s)[:, None]
        return torch.where(x_s == x_0, (1 - alpha) / (1 + (self.vocab_size - 1) * alpha), 1)

    def _bridge_weights(self, noisy: Noisy, s: PerRow, endpoint: Endpoint) -> bridges.Weights:
        """x_s = x_0 if s < tau <= t, else x_t."""
        jump = (self.lost(noisy) & (_times(noisy) > s[:, None])).to(noisy.alpha_t.dtype)
        return branches(1 - jump, jump, torch.zeros_like(jump))

    def _rate_weights(self, noisy: Noisy, endpoint: Endpoint) -> rates.Weights:
        """Given only that tau <= t, its hazard at t: the rates of masked diffusion on the masked view."""
        rate = rates.unmasking(noisy.alpha_t[:, None], self.alpha_prime(noisy.t)[:, None])
        rate = rate * self.lost(noisy)
        return branches(torch.zeros_like(rate), rate, torch.zeros_like(rate))


def _times(noisy: Noisy) -> PerPosition:
    if noisy.aux is None:
        raise ValueError("MaskedUniform needs the transition times tau in aux; corrupt() and prior() provide them")
    return noisy.aux
