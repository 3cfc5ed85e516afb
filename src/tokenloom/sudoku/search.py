r"""Exact search in many puzzles at once: singles, and where they end, a guess at the cell with the fewest candidates.

    grid  ->  singles until nothing changes  ->  contradiction | solution | one grid for each candidate of a cell

Every grid of the tree is visited unless its puzzle has reached the limit of solutions or lost its patience, so fewer
solutions than the limit are all of them.  The number of guesses of a puzzle with one solution, and how deep they are
nested, say how much search it needs: 0 where singles suffice.  The last grids are worked on first, so few wait.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, UInt8

from tokenloom.sudoku.singles import COUNT, ONE, Candidates, single, singles
from tokenloom.sudoku.solver import box_shape

WIDTH = 1024
"""Grids that are worked on at once: more do not stay in a processor's cache."""
FEWEST = 512
"""Fewer than these are joined by more, unless the search has just begun: a step costs its instructions."""
STEPS = 2
"""Steps of singles between two looks at what has ended."""


@dataclass(frozen=True)
class Searched:
    """The result for every puzzle."""

    solutions: UInt8[np.ndarray, "limit cells puzzles"]
    """The first solutions, as tokens."""
    count: Int[np.ndarray, "puzzles"]
    """The number of solutions, at most the limit."""
    guesses: Int[np.ndarray, "puzzles"]
    """Cells that were guessed at: the inner nodes of the tree."""
    depth: Int[np.ndarray, "puzzles"]
    """Guesses within guesses, at most."""
    complete: Bool[np.ndarray, "puzzles"]
    """False where the patience ended first."""


def search(grids: Candidates, limit: int = 2, patience: int = 1 << 30) -> Searched:
    """Look for up to `limit` solutions of each puzzle, with at most about `patience` guesses."""
    side, count = grids.shape[0], grids.shape[2]
    none = np.zeros((limit, side * side, count), np.uint8)
    numbers = (np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64))
    found = Searched(none, *numbers, np.ones(count, bool))
    waiting, fewest = [(grids, np.arange(count), np.zeros(count, np.int64))], count
    while waiting := [part for part in waiting if len(part[1])]:
        live, puzzle, depth = waiting.pop()
        while waiting and live.shape[2] < min(fewest, FEWEST):
            more = waiting.pop()
            live = np.concatenate([more[0], live], 2)
            puzzle, depth = np.concatenate([more[1], puzzle]), np.concatenate([more[2], depth])
        if live.shape[2] > WIDTH:
            waiting.append((live[..., :-WIDTH], puzzle[:-WIDTH], depth[:-WIDTH]))
            live, puzzle, depth = live[..., -WIDTH:], puzzle[-WIDTH:], depth[-WIDTH:]
        before, fewest = live, fewest + 1  # at first a single grid per puzzle: a solution may be near
        for _ in range(STEPS):
            before, live = live, singles(live)
        changed = (live != before).any((0, 1))
        open_one = (live[0, 0] != 0) & (found.count[puzzle] < limit) & found.complete[puzzle]
        solved = open_one & ~changed & single(live).all((0, 1))
        _keep_solutions(found, live, puzzle, np.flatnonzero(solved))
        going = np.flatnonzero(open_one & changed)
        unfinished = np.take(live, going, 2), puzzle[going], depth[going]
        stuck = np.flatnonzero(open_one & ~changed & ~solved)
        if len(stuck):
            puzzle, depth = puzzle[stuck], depth[stuck] + 1
            np.add.at(found.guesses, puzzle, 1)
            np.maximum.at(found.depth, puzzle, depth)
            found.complete[puzzle[found.guesses[puzzle] > patience]] = False
            guessed, parent, first = _guesses(np.take(live, stuck, 2))
            for part in (np.flatnonzero(~first), np.flatnonzero(first)):
                waiting.append((np.take(guessed, part, 2), puzzle[parent[part]], depth[parent[part]]))
        waiting.append(unfinished)
    return found


def guesses(grids: Candidates) -> Int[np.ndarray, "puzzles"]:
    """Rate puzzles with one solution by their guesses, the mean over the turned images of each, rounded up.

    Of the cells with equally few candidates the first is guessed at, so a turned puzzle needs other guesses.
    """
    height, width = box_shape(grids.shape[0])
    turns = range(4) if height == width else (0, 2)
    images = np.concatenate([np.rot90(grids, turn) for turn in turns], 2)
    found: np.ndarray = -(-search(images).guesses.reshape(len(turns), -1).sum(0) // len(turns))
    return found


def _keep_solutions(found: Searched, grids: Candidates, puzzle: np.ndarray, solved: np.ndarray) -> None:
    """Add solved grids to those of their puzzles, up to the limit."""
    for index in solved:
        owner = puzzle[index]
        number = found.count[owner]
        if number < len(found.solutions):
            found.solutions[number, :, owner] = COUNT[grids[:, :, index].ravel() - ONE]  # 2^d - 1 has d bits
            found.count[owner] += 1


def _guesses(grids: Candidates) -> tuple[Candidates, np.ndarray, np.ndarray]:
    """Return each grid once for every candidate of its first cell with the fewest, its index and whether it leads."""
    cells = grids.reshape(-1, grids.shape[2])
    open_candidates = COUNT[cells]
    open_candidates[open_candidates == 1] = 255
    cell = open_candidates.argmin(0)
    bits = ONE << np.arange(grids.shape[0], dtype=np.uint16)
    parent, digit = (cells[cell, np.arange(cells.shape[1])][:, None] & bits).nonzero()
    first = np.diff(parent, prepend=-1) > 0
    children = np.take(grids, parent, 2)
    children.reshape(-1, len(parent))[cell[parent], np.arange(len(parent))] = bits[digit]
    return children, parent, first
