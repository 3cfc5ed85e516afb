"""Complete grids and puzzles with one solution, by exact search.

A digit is free in a cell when its row, its column and its box are all without it.  The search fills the cell with the
fewest free digits first, or the digit with one cell left in some row, column or box, and goes back where nothing is
free.  It visits every solution once, so a count that stays below its limit is exact: `solve(puzzle, side, limit=2)` of
length 1 proves that a puzzle has one solution.  Grids are tokens (digit minus one) in reading order, blanks are -1.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice, product
from random import Random

Grid = tuple[int, ...]
BOXES = {4: (2, 2), 6: (2, 3), 9: (3, 3)}
"""Height and width of the boxes, for each side of a grid."""
SIDES = {side * side: side for side in BOXES}
"""Side of a grid, for each number of cells."""
BLANK = -1


def box_shape(side: int) -> tuple[int, int]:
    """Return height and width of a box; raise for another side."""
    if side not in BOXES:
        raise ValueError(f"a grid has side 4, 6 or 9, got {side}")
    return BOXES[side]


def check_givens(low: int, high: int, side: int) -> None:
    """Raise unless a grid of this side can have `low` to `high` givens."""
    if not 0 <= low <= high <= side * side:
        raise ValueError(f"givens must be a range within 0..{side * side} for side {side}, got {low}..{high}")


@cache
def cell_units(side: int) -> tuple[tuple[int, int, int], ...]:
    """Return, for each cell, the numbers of its row, column and box among the 3 * side units."""
    height, width = box_shape(side)
    across, places = side // width, product(range(side), repeat=2)
    return tuple((row, side + column, 2 * side + row // height * across + column // width) for row, column in places)


def solve(puzzle: Sequence[int], side: int, limit: int = 2, order: Random | None = None) -> list[Grid]:
    """Return the solutions of a puzzle, at most `limit` of them; `order` shuffles the digits that are tried."""
    return list(islice(_Search(puzzle, side, order), limit))


def random_grid(side: int, order: Random) -> Grid:
    """Draw a complete grid: every grid can occur, though not all with the same probability.

    The boxes on the diagonal share no row or column, so they are filled first, each with a random arrangement.
    """
    height, width = box_shape(side)
    while True:
        grid = [BLANK] * (side * side)
        for corner in range(min(side // height, side // width)):
            for index, digit in enumerate(order.sample(range(side), side)):
                row, column = divmod(index, width)
                grid[(corner * height + row) * side + corner * width + column] = digit
        if found := solve(grid, side, 1, order):
            return found[0]


def random_puzzle(side: int, givens: int, order: Random, attempts: int = 4) -> tuple[Grid, Grid]:
    """Draw a puzzle with one solution, and the solution.

    Digits are taken out of a complete grid in random order while the solution stays unique, down to `givens`.  A digit
    that must stay once must stay for good, so one pass ends in a puzzle that cannot lose a given.  Where that leaves
    more than `givens`, up to `attempts` grids are tried, and the puzzle with the fewest givens is returned.
    """
    found = []
    for _ in range(attempts):
        solution = random_grid(side, order)
        puzzle, left = list(solution), len(solution)
        for cell in order.sample(range(left), left):
            if left == givens:
                break
            puzzle[cell] = BLANK
            if len(solve(puzzle, side)) == 1:
                left -= 1
            else:
                puzzle[cell] = solution[cell]
        found.append((tuple(puzzle), solution))
        if left == givens:
            break
    return max(found, key=lambda pair: pair[0].count(BLANK))


class _Search:
    """The solutions of a puzzle: `free` holds the digits that each unit still lacks, as the bits of an integer."""

    def __init__(self, puzzle: Sequence[int], side: int, order: Random | None) -> None:
        if len(puzzle) != side * side:
            raise ValueError(f"a puzzle of side {side} has {side * side} cells, got {len(puzzle)}")
        self.units, self.order = cell_units(side), order
        self.grid, self.free, self.consistent = list(puzzle), [(1 << side) - 1] * (3 * side), True
        self.blanks = [cell for cell, digit in enumerate(puzzle) if digit == BLANK]
        for cell, digit in enumerate(puzzle):
            if not BLANK <= digit < side:
                raise ValueError(f"cell {cell} holds {digit}; tokens are in 0..{side - 1} and a blank is {BLANK}")
            for unit in self.units[cell] if digit != BLANK else ():
                self.consistent &= bool(self.free[unit] >> digit & 1)
                self.free[unit] &= ~(1 << digit)

    def __iter__(self) -> Iterator[Grid]:
        return self._filled() if self.consistent else iter(())

    def _filled(self) -> Iterator[Grid]:
        """Fill the blanks in every possible way."""
        if not self.blanks:
            yield tuple(self.grid)
            return
        place, options = self._most_constrained()
        if not options:
            return
        digits = [digit for digit in range(options.bit_length()) if options >> digit & 1]
        if self.order is not None and len(digits) > 1:
            self.order.shuffle(digits)
        blanks, free = self.blanks, self.free
        blanks[place], blanks[-1] = blanks[-1], blanks[place]
        cell = blanks.pop()
        for digit in digits:
            self.grid[cell] = digit
            for unit in self.units[cell]:
                free[unit] ^= 1 << digit
            yield from self._filled()
            for unit in self.units[cell]:
                free[unit] ^= 1 << digit
        blanks.append(cell)

    def _most_constrained(self) -> tuple[int, int]:
        """Return the index in `blanks` of the cell to fill, and its options as bits; 0 if the search must go back."""
        free, units, masks = self.free, self.units, []
        fewest, chosen = 99, 0
        for place, cell in enumerate(self.blanks):
            row, column, box = units[cell]
            mask = free[row] & free[column] & free[box]
            count = mask.bit_count()
            if count < 2:
                return place, mask
            if count < fewest:
                fewest, chosen = count, place
            masks.append(mask)
        # With more options in every cell, digits with one place left are too rare to be worth a search.
        only = self._only_place(masks) if fewest <= 3 else None
        return only or (chosen, masks[chosen])

    def _only_place(self, masks: list[int]) -> tuple[int, int] | None:
        """Return a digit with one place left in a unit; no option (0) if a unit has no place for a digit it lacks."""
        once, twice = [0] * len(self.free), [0] * len(self.free)
        for cell, mask in zip(self.blanks, masks, strict=True):
            for unit in self.units[cell]:
                twice[unit] |= once[unit] & mask
                once[unit] |= mask
        if once != self.free:
            return 0, 0
        for place, (cell, mask) in enumerate(zip(self.blanks, masks, strict=True)):
            for unit in self.units[cell]:
                if single := mask & ~twice[unit]:
                    return place, single & -single
        return None
