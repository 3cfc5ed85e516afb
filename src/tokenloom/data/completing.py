r"""Rows of text of which a part is given, so that a model learns to continue and to fill in.

A share of the training rows has given positions: all but a blank interval.  With i and j drawn uniformly in 0..L-1,

    [i, L)                          the row is to be continued, or
    [min(i, j), max(i, j)]          the row is to be filled in,

each in half of these rows.  Held-out rows have none, so that a bound is that of whole sequences.
"""

import torch
from torch import Generator

from tokenloom.types import Flags


def given_positions(rows: int, length: int, share: float, generator: Generator) -> Flags:
    """Draw the flags of given positions, [rows, length]; every row has a position that is not given."""
    some, continued = torch.rand(2, rows, 1, generator=generator, dtype=torch.float64)
    i, j = torch.randint(length, (2, rows, 1), generator=generator)
    j = torch.where(continued < 0.5, length - 1, j)
    position = torch.arange(length)
    outside = (position < torch.minimum(i, j)) | (position > torch.maximum(i, j))
    return torch.logical_and(some < share, outside)
