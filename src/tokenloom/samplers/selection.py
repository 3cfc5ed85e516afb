"""Which positions of a row to act on: those with the smallest scores, sharply or with Gumbel noise."""

import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.types import Flags, PerPosition


def smallest(scores: PerPosition, count: int | Int[Tensor, "batch 1"]) -> Flags:
    """Flags of the `count` smallest scores of each row; a score of +inf is never among them."""
    rank: Tensor = scores.argsort(dim=1, stable=True).argsort(1)
    chosen: Tensor = rank < count
    return chosen & (scores < torch.inf)


def gumbel(u: PerPosition) -> PerPosition:
    """Standard Gumbel noise from uniform numbers: the largest of log p + gumbel is a draw from p."""
    return -torch.log(-torch.log(u.clamp(min=1e-300)))
