r"""The law w of a lost token at each position, kept as structure rather than as a table.

A closed form (a bound in one pass, a draw without a table) is chosen by the class of a law, so a law cannot be
subclassed: one that says it is uniform is uniform.  `TableLaw` holds every other.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.categorical import draw_uniform_tokens, invert, invert_shared
from tokenloom.types import PerPosition, Tokens, sealed


@dataclass(frozen=True)
class Support:
    """The kinds of probabilities that a noise gives to clean tokens, over all positions."""

    never: bool
    """Some token has w = 0: seen, it is clean."""
    sometimes: bool
    """Some token has 0 < w < 1."""
    always: bool
    """Some token has w = 1."""

    @property
    def empty(self) -> bool:
        """True if no clean token is ever noise."""
        return not self.sometimes and not self.always


class Law(ABC):
    """A law over the states of each position."""

    num_states: int
    """The number of ids a position can take."""

    @abstractmethod
    def probability_of(self, tokens: Tokens) -> PerPosition:
        """w at the given tokens."""

    @abstractmethod
    def log_probs(self, device: torch.device) -> Float[Tensor, "#batch #length states"]:
        """log w over all states."""

    @abstractmethod
    def draw(self, u: PerPosition) -> Tokens:
        """Draw one token per position, by inversion of the uniform numbers u."""

    @abstractmethod
    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        """Draw from the law given that the result is not `tokens`; any token where no other is possible."""

    def at(self, place: Int[Tensor, "batch length"]) -> "Law":
        """Take the law at some positions of a sequence, each as a sequence of its own."""
        return self

    @property
    def length(self) -> int | None:
        """Positions that have laws of their own; None where all share one."""
        return None

    def support(self, vocab_size: int, mask: int | None) -> Support:
        """Return the kinds of probabilities that clean tokens have."""
        clean = torch.arange(vocab_size) != (-1 if mask is None else mask)
        values = self.log_probs(torch.device("cpu"))[..., :vocab_size][..., clean].exp()
        zero, one = values == 0, values == 1
        return Support(bool(zero.any()), bool((~zero & ~one).any()), bool(one.any()))

    @property
    def is_point(self) -> bool:
        """True if each position has a single state of probability 1."""
        return bool((self.log_probs(torch.device("cpu")).amax(-1) == 0).all())


@sealed
@dataclass(frozen=True)
class UniformLaw(Law):
    """w = 1/K on the tokens 0..K-1."""

    num_states: int

    def probability_of(self, tokens: Tokens) -> PerPosition:
        return torch.full(tokens.shape, 1 / self.num_states, device=tokens.device, dtype=torch.float64)

    def log_probs(self, device: torch.device) -> Float[Tensor, "#batch #length states"]:
        constant = torch.full((1, 1, 1), self.num_states, device=device, dtype=torch.float64)
        return -constant.log().expand(1, 1, self.num_states)

    def draw(self, u: PerPosition) -> Tokens:
        return draw_uniform_tokens(u, self.num_states)

    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        return (tokens + 1 + draw_uniform_tokens(u, self.num_states - 1)) % self.num_states


@sealed
@dataclass(frozen=True, eq=False)
class PointLaw(Law):
    """A point mass at every position: the mask, or the absorbing sequence U."""

    tokens: Int[Tensor, "#batch #length"]
    """The state that each position is lost to."""
    num_states: int

    def probability_of(self, tokens: Tokens) -> PerPosition:
        return (tokens == self.tokens.to(tokens.device)).double()

    def log_probs(self, device: torch.device) -> Float[Tensor, "#batch #length states"]:
        impossible = torch.full((*self.tokens.shape, self.num_states), -torch.inf, device=device, dtype=torch.float64)
        return impossible.scatter(-1, self.tokens.to(device).unsqueeze(-1), 0.0)

    def draw(self, u: PerPosition) -> Tokens:
        return self.tokens.to(u.device).expand(u.shape)

    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        return self.draw(u)


@sealed
@dataclass(frozen=True, eq=False)
class TableLaw(Law):
    """Any law, as a table of probabilities."""

    probabilities: Float[Tensor, "#batch #length states"]
    """Probabilities, which sum to 1 in the last dimension."""

    @property
    def num_states(self) -> int:  # type: ignore[override]
        return self.probabilities.shape[-1]

    @property
    def length(self) -> int | None:
        return None if self.probabilities.shape[1] == 1 else self.probabilities.shape[1]

    def _over(self, like: Tensor) -> Tensor:
        return self.probabilities.to(like.device).expand(*like.shape, -1)

    def probability_of(self, tokens: Tokens) -> PerPosition:
        return self._over(tokens).gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double()

    def log_probs(self, device: torch.device) -> Float[Tensor, "#batch #length states"]:
        return self.probabilities.to(device).double().log()

    def draw(self, u: PerPosition) -> Tokens:
        if self.probabilities.shape[:2] == (1, 1):  # one table for all: its cumulative law is formed once
            return invert_shared(self.probabilities[0, 0].to(u.device), u)
        return invert(self._over(u).contiguous(), u)

    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        others = self._over(u).scatter(-1, tokens.unsqueeze(-1), 0.0)
        return invert(torch.where(others.sum(-1, keepdim=True) > 0, others, 1), u)

    def at(self, place: Int[Tensor, "batch length"]) -> Law:
        return self if self.length is None else TableLaw(self.probabilities[0].to(place.device)[place])


@sealed
@dataclass(frozen=True, eq=False)
class MaskOrUniformLaw(Law):
    """w = share [. = mask] + (1 - share) uniform on the real tokens, with one share per row."""

    share: Float[Tensor, "batch 1"]
    """The mass of the mask in each row."""
    mask: int
    vocab_size: int
    """K, the mask not counted where it lies outside."""

    @property
    def num_states(self) -> int:  # type: ignore[override]
        return max(self.vocab_size, self.mask + 1)

    @property
    def real(self) -> int:
        """The number of tokens that are not the mask."""
        return self.vocab_size - (self.mask < self.vocab_size)

    def probability_of(self, tokens: Tokens) -> PerPosition:
        return torch.where(tokens == self.mask, self.share, (1 - self.share) / self.real)

    def log_probs(self, device: torch.device) -> Float[Tensor, "#batch #length states"]:
        every = torch.arange(self.num_states, device=device).expand(len(self.share), -1)
        return self.probability_of(every).log().unsqueeze(1)

    def draw(self, u: PerPosition) -> Tokens:
        number = draw_uniform_tokens(_beyond(u, self.share), self.real)
        return torch.where(u < self.share, self.mask, self._token(number))

    def draw_other(self, tokens: Tokens, u: PerPosition) -> Tokens:
        masked = tokens == self.mask
        others = torch.where(masked, self.real, self.real - 1)
        share = self.share / (self.share + (1 - self.share) * (self.real - 1) / self.real)
        share = torch.where(masked, 0, share)
        first = torch.where(masked, 0, tokens - (tokens > self.mask).long() + 1)  # behind the own token, in a circle
        number = (first + (_beyond(u, share) * others).long().minimum(others - 1)) % self.real
        return torch.where(u < share, self.mask, self._token(number))

    def _token(self, number: Tokens) -> Tokens:
        """Return the real token of a number in 0..real-1."""
        return number + (number >= self.mask).long()


def _beyond(u: PerPosition, share: Tensor) -> PerPosition:
    """Rescale the uniform numbers above the share to [0, 1]."""
    return ((u - share) / (1 - share).clamp(min=1e-300)).clamp(0, 1)  # a share of 1 leaves no such number
