"""What training needs of data: clean token sequences, split, and what is known about them."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Generator, Tensor

from tokenloom.types import Flags, Tokens

Decode = Callable[[Tokens], list[str]]
"""Sequences as text for people."""


@dataclass(frozen=True)
class Dataset:
    """Two tables of token sequences, [rows, length] of any integer dtype (they may be memory-mapped).

    `puzzles` marks, for every row of the two tables, positions that determine the others.  `augment` redraws a batch
    (and these flags) under the symmetries of the data; `draw_fixed` draws the given positions of a completion task;
    `relations` are the flags of a grid's attention bias; `entropy` is the exact one in nats a token, where
    known.
    """

    name: str
    vocab_size: int
    train: Tensor
    valid: Tensor
    fingerprint: str
    decode: Decode
    augment: Callable[[Tokens, Flags | None, Generator], tuple[Tokens, Flags | None]] | None = None
    draw_fixed: Callable[[Tokens, Flags | None, Generator], Flags] | None = None
    puzzles: tuple[Tensor, Tensor] | None = None
    relations: Bool[Tensor, "kinds length length"] | None = None
    entropy: float | None = None

    def __post_init__(self) -> None:
        for split, table in (("training", self.train), ("validation", self.valid)):
            if table.ndim != 2 or table.is_floating_point() or not len(table):
                raise ValueError(
                    f"the {split} split of {self.name} is empty or no table of tokens: {list(table.shape)}"
                )
        if self.puzzles is not None and [flags.shape for flags in self.puzzles] != [self.train.shape, self.valid.shape]:
            raise ValueError(f"the puzzles of {self.name} must mark the positions of every row of its splits")
        if self.train.shape[1] != self.valid.shape[1]:
            raise ValueError(
                f"the splits of {self.name} differ in length: {self.train.shape[1]} and {self.valid.shape[1]}"
            )

    @property
    def length(self) -> int:
        """Tokens a sequence."""
        return self.train.shape[1]


def take(table: Tensor, index: Tensor) -> Tokens:
    """Some rows, as int64."""
    return table[index].to(torch.int64)
