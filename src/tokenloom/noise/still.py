"""Noises that stand still: a lost token becomes uniform, the mask, or a draw from any table, such as unigrams."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.noise.base import NOISES, Noise, check_mask_id
from tokenloom.noise.law import Law, PointLaw, TableLaw, UniformLaw


@NOISES.register("uniform")
@dataclass(frozen=True)
class Uniform(Noise):
    """w = 1/K."""

    def law(self) -> Law:
        return UniformLaw(self.vocab_size)


@dataclass(frozen=True)
class WithMask(Noise):
    """A noise with a mask, a state that clean data never contains."""

    mask_id: int | None = field(default=None, kw_only=True)
    """The id of the mask: one more id, K, unless it lies inside the vocabulary, as in pretrained language models."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_mask_id(self.mask_id, self.vocab_size)

    @property
    def mask(self) -> int:
        return self.vocab_size if self.mask_id is None else self.mask_id


@NOISES.register("mask")
@dataclass(frozen=True)
class Mask(WithMask):
    """w = [. = mask]."""

    def law(self) -> Law:
        return PointLaw(torch.tensor([[self.mask]]), self.num_states)


@NOISES.register("table")
@dataclass(frozen=True, eq=False)
class Table(Noise):
    """w^l = pi^l."""

    pi: Float[Tensor, "length vocab"]
    """The probabilities of a lost token, [length, K]: one law per position, or a single row for all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pi.ndim != 2 or self.pi.shape[1] != self.vocab_size or not self.pi.is_floating_point():
            raise ValueError(
                f"pi must be a float table of shape [length, {self.vocab_size}], "
                f"got {list(self.pi.shape)} of {self.pi.dtype}"
            )
        if not bool((self.pi >= 0).all()) or not torch.allclose(self.pi.sum(-1), torch.ones_like(self.pi[:, 0])):
            raise ValueError("every row of pi must be a distribution: entries >= 0 that sum to 1")

    def __eq__(self, other: object) -> bool:
        """Compare the tables; a dataclass would ask a tensor for its truth."""
        return isinstance(other, Table) and self.vocab_size == other.vocab_size and torch.equal(self.pi, other.pi)

    def __hash__(self) -> int:
        return hash((self.vocab_size, tuple(self.pi.shape)))

    def law(self) -> Law:
        return TableLaw(self.pi.double().unsqueeze(0))


def unigrams(tokens: Tensor, vocab_size: int) -> Table:
    """Build the noise of token frequencies, each count raised by one so that every token may be noise."""
    counts = torch.bincount(tokens.flatten().long(), minlength=vocab_size).double() + 1
    return Table(vocab_size, (counts / counts.sum()).unsqueeze(0))
