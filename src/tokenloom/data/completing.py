r"""Rows of text of which a part is given, so that a model learns to continue and to fill in.

A share of the training rows has given positions: all but a blank interval.  With i and j drawn uniformly in 0..L-1,

    [i, L)                          the row is to be continued, or
    [min(i, j), max(i, j)]          the row is to be filled in,

each in half of these rows.  Held-out rows have none, so that a bound is that of whole sequences.
"""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from tokenloom.data.base import Dataset, Outline, Split, take
from tokenloom.types import Flags, Tokens


@dataclass(frozen=True)
class Completing(Dataset):
    """A data set of which some training rows are to be continued or filled in."""

    share: float = 0.0
    """The share of training rows with given positions."""

    @property
    def outline(self) -> Outline:
        return replace(super().outline, given=self.share > 0)

    def draw(self, split: Split, rows: Tensor, generator: Generator) -> tuple[Tokens, Flags | None]:
        tokens = take(getattr(self, split), rows)
        if split == "valid" or not self.share:
            return tokens, None
        return tokens, given_positions(len(rows), self.length, self.share, generator)


def given_positions(rows: int, length: int, share: float, generator: Generator) -> Flags:
    """Draw the flags of given positions, [rows, length]; every row has a position that is not given."""
    some, continued = torch.rand(2, rows, 1, generator=generator, dtype=torch.float64)
    i, j = torch.randint(length, (2, rows, 1), generator=generator)
    j = torch.where(continued < 0.5, length - 1, j)
    position = torch.arange(length)
    outside = (position < torch.minimum(i, j)) | (position > torch.maximum(i, j))
    return torch.logical_and(some < share, outside)
