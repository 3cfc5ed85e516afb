r"""The way up: x_0 becomes x_t, x_s a later x_t, and at t = 1 nothing but the prior is left.

    q_{t|s}(x_t | x_s) = alpha_{t|s} [x_t = x_s] + (1 - alpha_{t|s}) pi(x_t)

for the Markov processes here; `base.py` turns it round.
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import OverTokens, Posterior
from tokenloom.processes import bridges
from tokenloom.processes.forward import ForwardLaw
from tokenloom.processes.mixtures import Mixture, branches
from tokenloom.processes.noise import Noise
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
from tokenloom.support.typed import check_fields, checked
from tokenloom.types import Auxiliary, Flags, PerPosition, PerRow, Tokens

Endpoint = Posterior | Tokens
"""Where a bridge ends: x_0 itself, or a law of it."""


@dataclass(frozen=True)
class Corruption(ForwardLaw):
    """A forward law that noises tokens."""

    def auxiliary(self, x_0: Tokens, generator: Randomness | None) -> Auxiliary | None:
        """The auxiliary variable of a lifted process, drawn from its own law.

        Args:
            x_0: Clean tokens, for their shape and device.
            generator: Where random numbers come from.

        Returns:
            U or tau; None where the process has no auxiliary variable.
        """
        return None

    @checked
    def corrupt(self, x_0: Tokens, t: PerRow, generator: Randomness | None = None, given: Flags | None = None) -> Noisy:
        """x_t ~ q_{t|0}(. | x_0), with its auxiliary variable.

        Args:
            x_0: Clean tokens in 0..K-1.
            t: The time of each row, in [0, 1].
            generator: Where random numbers come from; PyTorch's global generator if None.
            given: Flags of the positions that stay clean.

        Returns:
            The noisy state.

        Raises:
            ValueError: If tokens, times or flags do not fit the process or each other.
        """
        self.check_clean(x_0, given)
        check_time("t", t, x_0)
        clean = Noisy(x_0, t, self.alpha(t), self.auxiliary(x_0, generator), given)
        return replace(clean, tokens=self.marginal(clean, x_0).draw(generator))

    @checked
    def prior(
        self, batch: int, length: int, generator: Randomness | None = None, device: torch.device | str | None = None
    ) -> Noisy:
        """The state that sampling starts from, at t = 1: nothing of x_0 is left.

        Args:
            batch: How many sequences.
            length: Positions of each.
            generator: Where random numbers come from; PyTorch's global generator if None.
            device: Where the state lies; by default where the generator is.

        Returns:
            The state, with its auxiliary variable.

        Raises:
            ValueError: If a batch of this size does not fit into memory.
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

        With q = alpha_1 + (1 - alpha_1) pi(x_0), it is q log(q / pi(x_0)) + (1 - q) log(1 - alpha_1).

        Args:
            noisy: A state at t = 1, for its auxiliary variable.
            x_0: Clean tokens.

        Returns:
            Nats; None where it may be infinite, because some token is never noise.
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
        """q_{t|0} averaged over the endpoint, at the time of `noisy`: alpha_t nu + (1 - alpha_t) pi.

        Args:
            noisy: The state whose time and auxiliary variable count; its tokens do not.
            endpoint: Clean tokens, or a law of them.

        Returns:
            The law of x_t.

        Raises:
            ValueError: If the endpoint does not fit the state.
        """
        self._check_law_of_clean(noisy, endpoint)
        kept = self._kept(noisy)
        return self._mixture(branches(torch.zeros_like(kept), kept, 1 - kept), noisy, endpoint, self.noise(noisy))

    def _kept(self, noisy: Noisy) -> PerPosition:
        """The probability that a position still has its clean token."""
        return noisy.alpha_t[:, None].expand_as(noisy.tokens)

    @checked
    def forward(self, noisy: Noisy, t: PerRow) -> Mixture:
        """q_{t|s}(. | x_s), from a state at s to a later time.

        Args:
            noisy: The state at s.
            t: The later time of each row.

        Returns:
            The law of x_t given x_s.

        Raises:
            ValueError: If t is not after s, or the chain is not Markov.
        """
        if not self.markov:
            raise ValueError(
                f"{type(self).__name__} is not Markov: x_t depends on x_0 beyond x_s; use corrupt(x_0, t) instead"
            )
        check_time("t", t, noisy.tokens)
        check_order(noisy.t, t, "forward")
        kept, lost = bridges.survival(noisy.alpha_t[:, None], self.alpha(t)[:, None])
        weights = branches(kept, torch.zeros_like(kept), lost).expand(*noisy.tokens.shape, 3)
        return self._mixture(weights, noisy, noisy.tokens, self._noise_until(noisy, t))

    def _noise_until(self, noisy: Noisy, t: PerRow) -> Noise:
        """What a token lost between the state's time and a later t is at t."""
        return self.noise(noisy)

    def move_to(self, noisy: Noisy, tokens: Tokens, s: PerRow) -> Noisy:
        """The state after a step to time s: new tokens, everything else carried over.

        Args:
            noisy: The state before the step.
            tokens: The tokens after it.
            s: The time after it, of each row.

        Returns:
            The state at s.
        """
        return replace(noisy, tokens=tokens, t=s, alpha_t=self.alpha(s))

    # ---------------------------------------------------------------- shared with the reversal

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
        """Raise unless x_0 is clean data of this process.

        Args:
            x_0: Tokens to check.
            given: Flags of given positions, of the same shape.

        Raises:
            ValueError: If ids lie outside 0..K-1 or are the mask, or a shape, dtype or device is wrong.
        """
        check_tokens("x_0", x_0, self.vocab_size, forbidden=self.mask_in_vocabulary)
        if given is not None:
            check_mask("given", given, x_0)

    def check_state(self, noisy: Noisy) -> None:
        """Raise unless this is a state of this process.

        Args:
            noisy: The state to check.

        Raises:
            ValueError: If a part of it has a wrong shape, dtype, device or range.
        """
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

    def _check_law_of_clean(self, noisy: Noisy, endpoint: Endpoint) -> None:
        """Raise unless the endpoint is clean tokens, or a law of them, for this state."""
        self.check_state(noisy)
        if isinstance(endpoint, torch.Tensor):
            self.check_clean(endpoint)
            check_same_shape("x_0", endpoint, noisy.tokens)
        else:
            endpoint.check(noisy, self)
