r"""The forward law q_{t|0} of one position, in the form every other law is derived from.

    q(x_t | x_0) = alpha_t [x_t = x_0] + (1 - alpha_t) pi(x_t)                              (`eq:transition`)

As a function of x_0 it takes two values, so all that x_t says of its own x_0 is

    evidence = log q(x_t | x_0 = x_t) - log q(x_t | x_0 != x_t) = log(1 + alpha_t / ((1 - alpha_t) pi(x_t))),

0 where the token says nothing (a mask) and +inf where it reveals x_0 (a visible token of an absorbing process).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.processes.noise import Noise
from tokenloom.processes.traits import Traits
from tokenloom.schedules import LinearSchedule, Schedule
from tokenloom.state import NetworkInput, Noisy
from tokenloom.support.typed import check_fields
from tokenloom.types import Flags, Logits, PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class ForwardLaw(Traits, ABC):
    """A vocabulary of K real tokens 0..K-1, a schedule and a noise law.

    Raises:
        ValueError: If the vocabulary has fewer than 2 tokens, or a field has a wrong type.
    """

    vocab_size: int
    """K, the number of real tokens; a mask outside the vocabulary is not counted."""
    schedule: Schedule = field(default_factory=LinearSchedule, kw_only=True)
    """How fast the signal alpha_t falls from 1."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.vocab_size < 2:
            raise ValueError(f"a process needs a vocabulary of at least 2 tokens, got {self.vocab_size!r}")

    # ---------------------------------------------------------------- levels

    def alpha(self, t: PerRow) -> PerRow:
        """alpha_t in float64: one number per row costs nothing; a step of 1/1000 in float32 would be off by 1e-4.

        Args:
            t: Times in [0, 1].

        Returns:
            The share of the signal that is left, 1 at t = 0.
        """
        return self.schedule.alpha(t.double())

    def alpha_prime(self, t: PerRow) -> PerRow:
        """d alpha / dt, in float64.

        Args:
            t: Times in [0, 1].

        Returns:
            The derivative, negative or 0.
        """
        return self.schedule.alpha_prime(t.double())

    def time_at(self, alpha: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The time at which the level is alpha, the inverse of `alpha`.

        Args:
            alpha: Levels in [0, 1].

        Returns:
            The times; above 1 for a level below alpha_1.
        """
        return self.schedule.inverse(alpha)

    # ---------------------------------------------------------------- states

    @property
    def num_states(self) -> int:
        """How many ids a position can take: K, or K + 1 with a mask outside the vocabulary."""
        return self.vocab_size

    @property
    def input_states(self) -> int:
        """How many ids a network is shown: those of a state, and the mask where only the network sees it."""
        return self.num_states

    @property
    def mask_in_vocabulary(self) -> int | None:
        """The id that clean data may not contain, if there is one inside the vocabulary."""
        return None

    def network_input(self, noisy: Noisy) -> NetworkInput:
        """The state as a network reads it.

        Args:
            noisy: The state x_t.

        Returns:
            What `DiffusionModel` passes to its network.
        """
        return NetworkInput(noisy.tokens, noisy.t, noisy.alpha_t, None, noisy.given)

    def hold(self, noisy: Noisy, tokens: Tokens, given: Flags) -> Noisy:
        """The state with given positions shown clean.

        Args:
            noisy: The state x_t.
            tokens: The given tokens; other positions are not read.
            given: Flags of the given positions.

        Returns:
            The state with these tokens and flags.
        """
        held = {"tokens": torch.where(given, tokens, noisy.tokens), "given": given}
        return Noisy(t=noisy.t, alpha_t=noisy.alpha_t, aux=noisy.aux, place=noisy.place, **held)

    # ---------------------------------------------------------------- laws of one position

    @abstractmethod
    def noise(self, noisy: Noisy) -> Noise:
        """The law pi that replaces a lost token.

        Args:
            noisy: The state, whose auxiliary variable or time pi may depend on.

        Returns:
            The law of every position.

        Raises:
            ValueError: If the state lacks the auxiliary variable, or its length is not that of the law.
        """

    def evidence(self, noisy: Noisy) -> PerPosition:
        """What each token says of its own clean token, as above; +inf at given positions.

        Args:
            noisy: The state x_t.

        Returns:
            Nats, from 0 (says nothing) to +inf (reveals x_0).
        """
        alpha = noisy.alpha_t[:, None]
        other = (1 - alpha) * self.noise(noisy).probability_of(noisy.tokens)
        return reveal(torch.where(other > 0, torch.log1p(alpha / other), torch.inf), noisy)

    def own_alpha(self, noisy: Noisy) -> PerPosition:
        """The level of each position's own token, given the auxiliary variable; 1 at given positions.

        Args:
            noisy: The state x_t.

        Returns:
            Levels in [0, 1].
        """
        return reveal_level(noisy.alpha_t[:, None].expand_as(noisy.tokens), noisy)

    def restrict(self, logits: Logits) -> Logits:
        """Logits without what a prediction may not contain (the mask, where it lies inside the vocabulary).

        Args:
            logits: Logits over the K tokens.

        Returns:
            Logits of the same shape, -inf at the mask.
        """
        return logits

    def over_states(self, log_probs: Logits) -> Logits:
        """Log-probabilities of tokens as log-probabilities of states.

        Args:
            log_probs: Log-probabilities over the K tokens.

        Returns:
            Log-probabilities over `num_states` ids, -inf at a mask.
        """
        return log_probs


def reveal(evidence: PerPosition, noisy: Noisy) -> PerPosition:
    """The evidence with +inf at given positions, which are known."""
    return evidence if noisy.given is None else evidence.masked_fill(noisy.given, torch.inf)


def reveal_level(alpha: PerPosition, noisy: Noisy) -> PerPosition:
    """The levels with 1 at given positions, which have lost nothing."""
    return alpha if noisy.given is None else alpha.masked_fill(noisy.given, 1)


def evidence_of(known: Flags, noisy: Noisy) -> PerPosition:
    """The evidence of tokens that say either everything or nothing."""
    nothing = torch.zeros(known.shape, device=known.device, dtype=noisy.alpha_t.dtype)
    return reveal(nothing.masked_fill(known, torch.inf), noisy)
