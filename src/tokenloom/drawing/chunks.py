"""Rows of a vocabulary a few at a time: what is computed on the way is then small beside the rows themselves.

Every row is treated alone, so a result does not depend on the size of a chunk.
"""

from collections.abc import Callable, Iterable

from torch import Tensor

CHUNK_ELEMENTS = 1 << 21
CACHED = 1 << 19
"""The number of elements that fit into a cache, for work that goes over its rows many times."""


def chunks(count: int, width: int, most: int | None = None) -> list[slice]:
    """Cut 0..count-1 into slices, each with at most `most` elements in rows of this width; at least one slice."""
    size = max(1, (CHUNK_ELEMENTS if most is None else most) // max(1, width))
    return [slice(start, min(start + size, count)) for start in range(0, max(1, count), size)]


def by_chunks(count: int, width: int, compute: Callable[[slice], Tensor], most: int | None = None) -> Tensor:
    """Compute all rows, chunk by chunk into one tensor; a single chunk is not copied."""
    return collected(count, ((part, compute(part)) for part in chunks(count, width, most)))


def collected(count: int, parts: Iterable[tuple[slice, Tensor]]) -> Tensor:
    """Join parts into one tensor of `count` rows; a part that is the whole is not copied."""
    whole: Tensor | None = None
    for rows, part in parts:
        if len(part) == count:
            return part
        if whole is None:
            whole = part.new_empty(count, *part.shape[1:])
        whole[rows] = part
    assert whole is not None
    return whole
