"""What a corrupted token becomes: the noise law pi of one position, kept as structure rather than as a table."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.categorical import draw_uniform_tokens, invert
from tokenloom.types import PerPosition, Tokens


class Noise(ABC):
    """A law over the states of each position."""

    @abstractmethod
    def probability_of(self, tokens: Tokens) -> PerPosition:
        """pi at the given tokens.

        Args:
            tokens: Ids of states.

        Returns:
            Probabilities.
        """

    @abstractmethod
    def log_probs(self) -> Float[Tensor, "#batch #length states"]:
        """log pi over all states.

        Returns:
            Log-probabilities; batch and length are 1 where all rows or positions share them.
        """

    @abstractmethod
    def draw(self, u: PerPosition) -> Tokens:
        """One token per position, by inversion of the uniform numbers u.

        Args:
            u: Uniform numbers in [0, 1).

        Returns:
            Ids of states.
        """

    @abstractmethod
    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        """A draw given that it is not `tokens`; any token where there is no other.

        Args:
            tokens: The states to avoid.
            u: Uniform numbers in [0, 1).

        Returns:
            Ids of states.
        """


@dataclass(frozen=True)
class UniformNoise(Noise):
    """pi = 1/K."""

    vocab_size: int
    """K."""
    device: torch.device
    """Where the probabilities lie."""
    dtype: torch.dtype
    """The dtype of the probabilities."""

    def probability_of(self, tokens: Tokens) -> PerPosition:
        return torch.full(tokens.shape, 1 / self.vocab_size, device=self.device, dtype=self.dtype)

    def log_probs(self) -> Float[Tensor, "#batch #length states"]:
        constant = torch.full((1, 1, 1), self.vocab_size, device=self.device, dtype=self.dtype)
        return -constant.log().expand(1, 1, self.vocab_size)

    def draw(self, u: PerPosition) -> Tokens:
        return draw_uniform_tokens(u, self.vocab_size)

    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        return (tokens + 1 + draw_uniform_tokens(u, self.vocab_size - 1)) % self.vocab_size


@dataclass(frozen=True)
class PointNoise(Noise):
    """pi = a point mass at every position: the mask, or the absorbing sequence U."""

    tokens: Int[Tensor, "batch length"]
    """The state that each position is lost to."""
    num_states: int
    """How many ids a position can take."""
    dtype: torch.dtype
    """The dtype of the probabilities."""

    def probability_of(self, tokens: Tokens) -> PerPosition:
        return (tokens == self.tokens).to(self.dtype)

    def log_probs(self) -> Float[Tensor, "#batch #length states"]:
        impossible = torch.full(
            (*self.tokens.shape, self.num_states), -torch.inf, device=self.tokens.device, dtype=self.dtype
        )
        return impossible.scatter(-1, self.tokens.unsqueeze(-1), 0.0)

    def draw(self, u: PerPosition) -> Tokens:
        return self.tokens

    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        return self.tokens


@dataclass(frozen=True)
class TableNoise(Noise):
    """Any pi, given as a table of probabilities for each position."""

    pi: Float[Tensor, "#batch length states"]
    """Probabilities, which sum to 1 in the last dimension."""

    def probability_of(self, tokens: Tokens) -> PerPosition:
        return self.pi.expand(len(tokens), -1, -1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)

    def log_probs(self) -> Float[Tensor, "#batch #length states"]:
        return self.pi.log()

    def draw(self, u: PerPosition) -> Tokens:
        return invert(self.pi.expand(len(u), -1, -1).contiguous(), u)

    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        others = self.pi.expand(len(u), -1, -1).scatter(-1, tokens.unsqueeze(-1), 0.0)
        return invert(torch.where(others.sum(-1, keepdim=True) > 0, others, 1), u)
