"""Sudoku puzzles dug out of complete grids, each with the one solution that goes with it.

A puzzle that cannot lose a given is found by taking digits out of a complete grid in random order while the solution
stays unique.  Every superset of its givens has the same unique solution: from 22 to 27 givens upwards for side 9.
"""

import math
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.data.token_cache import cached_rows, digest
from tokenloom.drawing.randomness import derive_seed
from tokenloom.models.tokenizer import Ids
from tokenloom.sudoku.difficulty import difficulty
from tokenloom.sudoku.solver import BLANK, cell_units, check_givens, random_puzzle
from tokenloom.support.files import default_cache
from tokenloom.types import Flags, Tokens

PER_MINUTE = {9: 1200}
"""Minimal puzzles that a core finds in a minute; those of other sides take no time to speak of."""
ATTEMPTS = 100
"""Grids that are tried for one puzzle before its range of givens is called out of reach."""


def violations(grids: Tokens, side: int) -> Int[Tensor, "batch"]:
    """Count the rules that each grid violates, at most 3 side^2: digits that a row, column or box does not hold.

    A unit of `side` digits lacks one for every digit that is there once too often, so in a complete grid this is
    sum over units and digits of max(0, count - 1), the figure of the paper's code.
    """
    units = torch.tensor(cell_units(side), device=grids.device)
    members = torch.stack([(units == unit).any(1).nonzero().squeeze(1) for unit in range(3 * side)])
    held = (grids[:, members].unsqueeze(-1) == torch.arange(side, device=grids.device)).any(-2)
    return (~held).sum((1, 2))


def is_valid(grids: Tokens, side: int) -> Bool[Tensor, "batch"]:
    """Return whether every row, column and box of a grid holds every digit once."""
    return violations(grids, side) == 0


@dataclass(frozen=True)
class Puzzles:
    """Solutions as int8 tokens, and which cells of each a puzzle gives."""

    side: int
    solutions: Tokens
    given: Flags

    @property
    def posed(self) -> Tokens:
        """The puzzles themselves, -1 for a blank."""
        return torch.where(self.given, self.solutions.long(), BLANK)

    @cached_property
    def difficulty(self) -> Int[Tensor, "batch"]:
        """The depth that logic must look to solve each (`difficulty.py`)."""
        return difficulty(self.posed, self.side)


def minimal_puzzles(side: int, rows: int, seed: int, cache: Path | None = None) -> Puzzles:
    """Find puzzles that cannot lose a given, one per grid; kept in the cache, as finding them takes a while."""
    cells = side * side

    def build() -> Iterator[Ids]:
        minutes = rows / PER_MINUTE.get(side, math.inf)
        if minutes >= 1:
            said = f"finding {rows:,} puzzles with one solution takes about {minutes:.0f} minutes, once; they are kept"
            warnings.warn(said, stacklevel=2)
        order = random.Random(seed)
        for _ in range(rows):
            puzzle, solution = random_puzzle(side, 0, order, attempts=1)
            yield np.array([[*solution, *(digit != BLANK for digit in puzzle)]], dtype=np.int32)

    key = digest("minimal sudoku puzzles", side, rows, seed)
    table = cached_rows(cache or default_cache(), key, 2 * cells, build)
    return Puzzles(side, table[:, :cells].to(torch.int8), table[:, cells:].bool())


def unique_puzzles(count: int, givens: tuple[int, int], seed: int, side: int = 9, minimal: bool = False) -> Puzzles:
    """Find puzzles with one solution to evaluate on, with numbers of givens in a range that includes both ends.

    Every number is aimed at in turn, but the lowest (below 23 for side 9) are met only as often as random digging finds
    them.  With `minimal` no puzzle can lose a given, and every number is met as often as digging finds it.
    """
    low, high = givens
    check_givens(low, high, side)
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    # Not the numbers of `minimal_puzzles` and `random_grids`: a model must not meet the grids it was trained on.
    order, tries = random.Random(derive_seed(seed, "puzzles to evaluate on")), 1 if minimal else 4
    found = []
    for index in range(count):
        aim = 0 if minimal else low + index % (high - low + 1)
        drawn = (random_puzzle(side, aim, order, tries) for _ in range(ATTEMPTS // tries))
        fitting = next((pair for pair in drawn if low <= side * side - pair[0].count(BLANK) <= high), None)
        if fitting is None:
            raise ValueError(f"none of {ATTEMPTS} grids had such a puzzle of {low} to {high} givens; widen the range")
        found.append(fitting)
    puzzles, solutions = (torch.tensor(part, dtype=torch.int8) for part in zip(*found, strict=True))
    return Puzzles(side, solutions, puzzles != BLANK)
