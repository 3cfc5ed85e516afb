"""Sudoku as conditional sampling: the givens are held, the other cells drawn, until a grid obeys the rules.

    try j of a puzzle:   x_0 ~ p(x_0 | givens),  with random numbers of its own,     solved at the first valid x_0.

First an exact search says, within its patience, whether a puzzle has no solution, one or several; one without a
solution is not drawn.  A round draws as many new tries as were made before (1, 1, 2, 4, ...), for the unsolved puzzles
only, so that easy ones cost one try and hard ones fill the batch.  The random numbers of a try depend on its givens,
its number and the seed alone, not on the other puzzles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.models.protocol import Model
from tokenloom.samplers import Sampler
from tokenloom.samplers.run import OnStep, Samples
from tokenloom.sudoku.puzzles import is_valid
from tokenloom.sudoku.search import search
from tokenloom.sudoku.singles import candidates
from tokenloom.sudoku.solver import BLANK, SIDES
from tokenloom.support.checks import check_least
from tokenloom.types import Tokens


@dataclass(frozen=True)
class Solver:
    """Settings of solving."""

    sampler: Sampler = field(default_factory=lambda: Sampler(steps=32))
    tries: int = 8
    seed: int = 0
    batch: int = 32
    until_valid: bool = False
    """End a try at the first evaluation whose most probable grid obeys the rules, often before anything is drawn."""

    def __post_init__(self) -> None:
        check_least(self, tries=1, batch=1)


SEARCHED, LONG = 2000, 20_000
"""Guesses of the exact search for each of many puzzles, and for one: less than a second."""
TOLD = {
    0: "the puzzle has no solution, so nothing was drawn; check its givens",
    2: "the puzzle has several solutions: any of them counts, and more givens would leave one",
}


@dataclass(frozen=True)
class Outcome:
    """The result for one puzzle."""

    grid: tuple[int, ...]
    """The first valid grid, else the last that was drawn; the puzzle itself before the first try."""
    solved: bool = False
    tries: int = 0
    evaluations: int = 0
    """Network evaluations of all tries."""
    solutions: int | None = None
    """The number of solutions: 0, 1, or 2 for several; None if that is not known."""

    @property
    def told(self) -> str | None:
        """A sentence on a puzzle that is not one: it has no solution, or several."""
        return None if self.solutions is None else TOLD.get(self.solutions)


OnDrawn = Callable[[Sequence[Outcome]], None]


def solve_puzzles(
    model: Model,
    puzzles: Tokens,
    solver: Solver,
    on_step: OnStep | None = None,
    on_drawn: OnDrawn | None = None,
    glance: Model | None = None,
) -> list[Outcome]:
    """Solve puzzles [puzzles, cells] of one size, -1 for a blank; `on_drawn` sees the outcomes after every batch.

    A `glance` is a faster model that is asked once about every puzzle; its grid is an answer where it obeys the rules.
    """
    check_fits(model, puzzles)
    counts = count_solutions(puzzles)
    outcomes = [Outcome(tuple(puzzle), solutions=count) for puzzle, count in zip(puzzles.tolist(), counts, strict=True)]
    made = 0
    if glance is not None:
        once = replace(solver, sampler=Sampler(steps=1), until_valid=True)
        _take_round(glance, puzzles, once, outcomes, [1], None, on_drawn)
    while made < solver.tries:
        count = min(max(1, made), solver.tries - made)
        _take_round(model, puzzles, solver, outcomes, range(made + 1, made + count + 1), on_step, on_drawn)
        made += count
    return outcomes


def _take_round(
    model: Model,
    puzzles: Tokens,
    solver: Solver,
    outcomes: list[Outcome],
    tries: Sequence[int],
    on_step: OnStep | None,
    on_drawn: OnDrawn | None,
) -> None:
    """Draw the tries of these numbers for every puzzle that is not solved, and update the outcomes."""
    unsolved = [index for index, one in enumerate(outcomes) if not one.solved and one.solutions != 0]
    draws = [(index, number) for index in unsolved for number in tries]
    for first in range(0, len(draws), solver.batch):
        drawn = draws[first : first + solver.batch]
        chosen = puzzles[[index for index, _ in drawn]]
        samples = _draw(model, chosen, solver, [number for _, number in drawn], on_step)
        results = (samples.tokens.tolist(), obeys(samples.tokens, chosen).tolist(), samples.evaluations.tolist())
        for (index, number), grid, solved, cost in zip(drawn, *results, strict=True):
            before = outcomes[index]
            if not before.solved:  # the first valid grid of a puzzle stays
                outcomes[index] = Outcome(tuple(grid), solved, number, before.evaluations + cost, before.solutions)
        if on_drawn is not None:
            on_drawn(outcomes)


def count_solutions(puzzles: Tokens) -> list[int | None]:
    """Return 0, 1, or 2 for several, for each puzzle; None if a search within the patience does not tell."""
    patience = max(SEARCHED, LONG // max(1, len(puzzles)))
    found = search(candidates(puzzles, SIDES[puzzles.shape[1]]), 2, patience)
    known = found.complete | (found.count == 2)
    return [count if sure else None for count, sure in zip(found.count.tolist(), known.tolist(), strict=True)]


def check_fits(model: Model, puzzles: Tokens) -> None:
    """Raise unless the model's grids are of the puzzles' size."""
    cells, known = puzzles.shape[1], model.process.vocab_size
    if cells not in SIDES or model.length not in (None, known * known):
        drawn = f"{model.length or cells} of {known} tokens"
        raise ValueError(f"a Sudoku has 16, 36 or 81 cells, but the model draws {drawn}; name another")
    if (side := SIDES[cells]) != known:
        remedy = f"name one that fits with --model, such as the run folder of tokenloom train --recipe sudoku{side}"
        raise ValueError(f"the puzzle has side {side}, but the model solves side {known}; {remedy}")


def _draw(model: Model, puzzles: Tokens, solver: Solver, tries: list[int], on_step: OnStep | None) -> Samples:
    """Draw a grid for each puzzle, whose tries have these numbers."""

    def valid(grids: Tokens, rows: Int[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
        return obeys(grids, puzzles[rows])

    named = zip(map(repr, puzzles.tolist()), tries, strict=True)
    own = RowGenerators([derive_seed(solver.seed, "solve", puzzle, number) for puzzle, number in named])
    given, until = (puzzles.clamp(min=0), puzzles != BLANK), valid if solver.until_valid else None
    batch, length = puzzles.shape
    return solver.sampler.run(model, batch, length=length, given=given, generator=own, on_step=on_step, until=until)


def obeys(grids: Tokens, puzzles: Tokens) -> Bool[Tensor, "batch"]:
    """Return whether each grid obeys the rules and keeps the givens of its puzzle (-1 is a blank)."""
    return is_valid(grids, SIDES[grids.shape[1]]) & ((grids == puzzles) | (puzzles == BLANK)).all(1)
