r"""One step of singles, in many puzzles at once.

    a cell with one candidate takes it from its row, column and box, and a digit with one place in one of them goes
    there, everywhere at once.  A cell without candidate or a digit without place is a contradiction.

A cell is a 16-bit integer with a bit for each candidate, and puzzles lie along the last axis.  With

    twice <- twice | once & c,   once <- once | c      over the cells c of a unit,

`once & ~twice` holds the digits with one place in the unit, for all puzzles with few instructions.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, UInt16

from tokenloom.sudoku.solver import BLANK, box_shape
from tokenloom.types import Tokens

Candidates = UInt16[np.ndarray, "side side puzzles"]

ONE = np.uint16(1)
COUNT = np.array([bits.bit_count() for bits in range(512)], np.uint8)
"""The number of candidates in each value of a cell."""


def candidates(puzzles: Tokens, side: int) -> Candidates:
    """Return the cells of puzzles [puzzles, cells], digits minus one and -1 for a blank."""
    digits = puzzles.T.cpu().numpy().astype(np.int64)
    cells = np.where(digits == BLANK, every(side), 1 << np.maximum(digits, 0)).astype(np.uint16)
    return cells.reshape(side, side, -1)


def every(side: int) -> np.uint16:
    """Return a cell with every candidate."""
    return np.uint16((1 << side) - 1)


def single(values: UInt16[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """Return whether exactly one bit is set."""
    result: np.ndarray = (values & (values - ONE) == 0) & (values != 0)
    return result


def singles(grids: Candidates) -> Candidates:
    """Take one step of singles everywhere at once; a grid with a contradiction is left without candidates."""
    side, full = grids.shape[0], every(grids.shape[0])
    height, width = box_shape(side)
    in_boxes = side // height, height, side // width, width, grids.shape[2]
    both = np.stack([grids, grids * single(grids)])  # what may stand in a cell, and what does
    boxes = both.reshape(2, *in_boxes)
    units = (
        ([both[:, :, column] for column in range(side)], (side, 1, -1)),
        ([both[:, row] for row in range(side)], (1, side, -1)),
        (
            [boxes[:, :, i, :, j] for i in range(height) for j in range(width)],
            (side // height, 1, side // width, 1, -1),
        ),
    )
    taken, forced = np.zeros_like(grids), np.zeros_like(grids)
    broken = np.zeros(grids.shape[2], bool)
    for cells, shape in units:
        once, twice = _once_and_twice(cells)
        broken |= ((once[0] != full) | (twice[1] != 0)).reshape(side, -1).any(0)
        for found, part in ((taken, once[1]), (forced, once[0] & ~twice[0])):
            view = found.reshape(in_boxes) if len(shape) == 5 else found
            view |= part.reshape(shape)
    forced &= grids
    broken |= (forced & (forced - ONE) != 0).reshape(side * side, -1).any(0)
    forced |= (forced == 0) * full
    left: np.ndarray = (grids & ~taken | both[1]) & forced
    left *= ~(broken | (left == 0).reshape(side * side, -1).any(0))
    return left


def _once_and_twice(cells: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the bits of at least one and of at least two of the cells."""
    once, twice, shared = cells[0].copy(), np.zeros_like(cells[0]), np.empty_like(cells[0])
    for cell in cells[1:]:
        np.bitwise_and(once, cell, out=shared)
        np.bitwise_or(twice, shared, out=twice)
        np.bitwise_or(once, cell, out=once)
    return once, twice
