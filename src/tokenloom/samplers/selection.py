"""Selection, sharp or with Gumbel noise: the positions of smallest scores, the most probable token."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.chunks import CACHED, by_chunks
from tokenloom.types import Flags, PerPosition, Tokens

ROUNDING = 1e-5
"""Scores this close, relative to their size (at least 1), are equal: a network rounds differently in another batch."""


def smallest(scores: PerPosition, count: int | Int[Tensor, "batch 1"], order: PerPosition | None = None) -> Flags:
    """Flag the `count` smallest scores of each row; a score of +inf is never among them.

    Scores that are not random themselves may be tied, and then rounding would choose.  Only the last one chosen can be
    tied with one that is not: all that lie within rounding of it are, and the smallest of `order`, the row's own random
    numbers, go first.
    """
    keys = scores
    if order is not None and scores.shape[1]:
        last = torch.as_tensor(count, device=scores.device).clamp(1, scores.shape[1]).expand(len(scores), 1) - 1
        limit = scores.sort(1).values.gather(1, last)
        slack = ROUNDING * limit.abs().clamp(1, torch.finfo(limit.dtype).max)
        distance = (scores - limit).nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)
        keys = torch.where(distance < -slack, -1.0, torch.where(distance > slack, 2.0, order))
    chosen: Tensor = keys.argsort(dim=1, stable=True).argsort(1) < count
    return chosen & (scores < torch.inf)


def gumbel(u: PerPosition) -> PerPosition:
    """Turn uniform numbers into standard Gumbel noise: the largest of log p + gumbel is a draw from p."""
    return -torch.log(-torch.log(u.clamp(min=1e-300)))  # u may be 0, whose logarithm is not finite


def mode(logits: Float[Tensor, "batch length vocab"]) -> Tokens:
    """Return the most probable token, and of those within rounding of it the smallest id."""
    rows = logits.flatten(0, 1)

    def first(part: slice) -> Tensor:
        largest = rows[part].amax(-1, keepdim=True)
        return (rows[part] >= largest - ROUNDING * largest.abs().clamp(min=1)).int().argmax(-1)

    return by_chunks(len(rows), rows.shape[1], first, CACHED).view(logits.shape[:2])
