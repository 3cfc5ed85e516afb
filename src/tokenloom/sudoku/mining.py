r"""Mining of puzzles with few givens, or that need much search: a walk over the minimal puzzles of a grid.

    {-k + k'}:   take out k givens, add cells of the solution until it is the only one again, take out what can be

Another solution X' of the givens differs from the solution X in a set of cells, and every puzzle of this grid must give
one of them: so each found X' is kept, and says without a search what must be added and which given cannot be taken out
(the only one in some such set).  A walk keeps what it has unless the new puzzle is at least as good.

Many walks, each on a grid of its own, ask the exact search one question each at a time.
"""

from dataclasses import astuple, dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int, UInt8

from tokenloom.sudoku.search import Searched, guesses, search
from tokenloom.sudoku.singles import ONE, every

Aim = Literal["few", "hard"]
"""Puzzles with few givens, or such that need many guesses."""

KEPT = 64
"""Sets of cells, one of which must be given, that a walk remembers."""
PATIENCE = 500
"""Guesses after which a given counts as one that must stay."""
SWAPPED = 4
"""Most givens taken out at a time."""
EACH, FEW, MANY = 16, 20, 8
"""Most puzzles kept of a grid; they have at most so many givens, or need at least so many guesses."""


@dataclass(frozen=True)
class Mined:
    """Puzzles as they were found: solutions as tokens, flags of the givens, and the guesses they need."""

    solutions: UInt8[np.ndarray, "puzzles cells"]
    given: Bool[np.ndarray, "puzzles cells"]
    guesses: Int[np.ndarray, "puzzles"]


class Walks:
    """Walks over the minimal puzzles of some grids; `take_step` asks one question for each."""

    def __init__(self, solutions: UInt8[np.ndarray, "walks cells"], aim: Aim, generator: np.random.Generator) -> None:
        self.solutions, self.aim, self.generator = solutions, aim, generator
        walks, cells = solutions.shape
        self.side, self.rows = round(cells**0.5), np.arange(walks)
        self.given = np.ones((walks, cells), bool)
        self.growing = np.zeros(walks, bool)
        self.sets = np.zeros((walks, KEPT, cells), bool)
        self.set_count = np.zeros(walks, np.int64)
        self.best = np.ones((walks, cells), bool)
        self.best_guesses = np.zeros(walks, np.int64)
        self.found: list[Mined] = []

    def take_step(self) -> None:
        """Ask for every walk whether another solution fits, and go on by the answer."""
        self._swap(np.flatnonzero(~self.growing & ~self._removable().any(1)))
        self._hit_known_sets()
        removable = self._removable()
        asked = np.where(self.growing, -1, self._choose(removable))  # the given that is to go; -1 for none
        grids = np.where(self.given, ONE << self.solutions.astype(np.uint16), every(self.side))
        without = self.rows[asked >= 0], asked[asked >= 0]
        grids[without] = every(self.side) & ~(ONE << self.solutions[without].astype(np.uint16))
        answer = search(np.ascontiguousarray(grids.T).reshape(self.side, self.side, -1), 2, PATIENCE)
        self._learn(answer, asked)

    def _learn(self, answer: Searched, asked: Int[np.ndarray, "walks"]) -> None:
        """Remember the sets in which other solutions differ, and take out or add givens."""
        other = np.zeros(len(self.rows), bool)
        for number, found in enumerate(answer.solutions):
            differs = (found.T != self.solutions) & (answer.count > number)[:, None]
            walks = np.flatnonzero(differs.any(1))
            self._remember(walks, differs[walks])
            other[walks] = True
        alone = ~other & answer.complete
        self.given[alone & (asked >= 0), asked[alone & (asked >= 0)]] = False
        self.growing &= ~alone
        unknown = np.flatnonzero(~other & ~answer.complete)
        must_stay = np.zeros((len(unknown), self.given.shape[1]), bool)
        free = self._choose(~self.given[unknown])
        must_stay[np.arange(len(unknown)), np.where(asked[unknown] >= 0, asked[unknown], free)] = True
        self._remember(unknown, must_stay)

    def _remember(self, walks: Int[np.ndarray, "some"], sets: Bool[np.ndarray, "some cells"]) -> None:
        self.sets[walks, self.set_count[walks] % KEPT] = sets
        self.set_count[walks] += 1

    def _removable(self) -> Bool[np.ndarray, "walks cells"]:
        """Return the givens that are not the only one in some known set."""
        held = self.sets & self.given[:, None]
        walk, number = (held.sum(2, dtype=np.uint8) == 1).nonzero()
        removable = self.given.copy()
        removable[walk, held[walk, number].argmax(1)] = False
        return removable

    def _hit_known_sets(self) -> None:
        """Give a cell of every known set to the walks that grow."""
        walks = np.flatnonzero(self.growing)
        while len(walks):
            sets, given = self.sets[walks], self.given[walks, None]
            missed: np.ndarray = np.any(sets, axis=2) & ~np.any(sets & given, axis=2)
            walks, missed = walks[missed.any(1)], missed[missed.any(1)]
            cells = self.sets[walks, missed.argmax(1)]
            self.given[walks, self._choose(cells)] = True

    def _choose(self, flags: Bool[np.ndarray, "some cells"]) -> Int[np.ndarray, "some"]:
        """Draw one of the flagged cells of each row, uniformly."""
        chosen: np.ndarray = (self.generator.random(flags.shape) * flags).argmax(1)
        return chosen

    def _swap(self, done: Int[np.ndarray, "some"]) -> None:
        """Rate the walks that reached a minimal puzzle, keep the better one, and take out some givens of it."""
        if not len(done):
            return
        given, rated = self.given[done], self._guesses(done)
        fewer = given.sum(1) <= self.best[done].sum(1)
        better = fewer if self.aim == "few" else rated >= self.best_guesses[done]
        better |= self.best[done].all(1)
        kept = done[better]
        self.found.append(Mined(self.solutions[kept], given[better], rated[better]))
        self.best[kept], self.best_guesses[kept] = given[better], rated[better]
        order = (self.generator.random(given.shape) * self.best[done]).argsort(1)[:, ::-1]
        out = self.generator.integers(1, SWAPPED + 1, len(done))
        flags = np.zeros_like(given)
        np.put_along_axis(flags, order, np.arange(given.shape[1]) < out[:, None], 1)
        self.given[done] = self.best[done] & ~flags
        self.growing[done] = True

    def _guesses(self, walks: Int[np.ndarray, "some"]) -> Int[np.ndarray, "some"]:
        """Rate the puzzles of some walks."""
        grids = np.where(self.given[walks], ONE << self.solutions[walks].astype(np.uint16), every(self.side))
        return guesses(np.ascontiguousarray(grids.T).reshape(self.side, self.side, -1))


def mine(
    solutions: UInt8[np.ndarray, "walks cells"], aim: Aim, questions: int, generator: np.random.Generator
) -> Mined:
    """Walk on each grid for a number of questions, and return the first puzzle of each walk, which is any minimal one.

    Beside it stand the last `EACH` different ones with at most `FEW` givens or at least `MANY` guesses.
    """
    walks = Walks(solutions, aim, generator)
    for _ in range(questions):
        walks.take_step()
    found = Mined(*(np.concatenate(part) for part in zip(*(astuple(part) for part in walks.found), strict=True)))
    wanted = (found.given.sum(1) <= FEW) | (found.guesses >= MANY)
    chosen = np.unique(found.solutions, axis=0, return_index=True)[1].tolist()
    seen = {found.solutions[row].tobytes(): {found.given[row].tobytes()} for row in chosen}
    for row in np.flatnonzero(wanted)[::-1]:
        puzzle, of_grid = found.given[row].tobytes(), seen[found.solutions[row].tobytes()]
        if puzzle not in of_grid and len(of_grid) <= EACH:
            chosen.append(row)
            of_grid.add(puzzle)
    return Mined(*(part[np.sort(chosen)] for part in astuple(found)))
