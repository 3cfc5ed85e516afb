"""Any noise: a lost token becomes a draw from a table, one for all positions (unigram counts) or one for each."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.noise.base import NOISES, Noise
from tokenloom.noise.law import Law, TableLaw


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
