"""Sudoku as conditional sampling: the givens are held, the other cells drawn, until a grid obeys the rules.

    try j of a puzzle:   x_0 ~ p(x_0 | givens),  with random numbers of its own,     solved at the first valid x_0.

A round draws as many new tries as were made before (1, 1, 2, 4, ...), for the unsolved puzzles only, so that easy ones
cost one try and hard ones fill the batch.  With `until_valid` a try ends as soon as the most probable grid obeys the
rules: often at the first look at the givens, before anything is drawn.  What a puzzle meets depends on its givens and
the seed alone, not on the puzzles around it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.models.protocol import Model
from tokenloom.samplers import Sampler, Samples, Step
from tokenloom.sudoku.puzzles import is_valid
from tokenloom.sudoku.solver import BLANK
from tokenloom.sudoku.text import SIDES
from tokenloom.support.checks import check_least
from tokenloom.types import Tokens


@dataclass(frozen=True)
class Solver:
    """How to draw."""

    sampler: Sampler = field(default_factory=lambda: Sampler(steps=32))
    tries: int = 8
    seed: int = 0
    batch: int = 32
    """Grids drawn at a time."""
    until_valid: bool = False
    """Whether a try ends at the first network evaluation whose most probable grid obeys the rules; else it is drawn to
    the end, as the sampler does."""

    def __post_init__(self) -> None:
        check_least(self, tries=1, batch=1)


@dataclass(frozen=True)
class Outcome:
    """What became of a puzzle."""

    grid: tuple[int, ...]
    """The first valid grid, else the last that was drawn."""
    solved: bool
    tries: int
    evaluations: int = 0
    """Network evaluations of all tries."""


@dataclass(frozen=True)
class Draw:
    """One grid to draw: which puzzle, and its try, counted from 1."""

    puzzle: int
    attempt: int


def solve_puzzles(
    model: Model,
    puzzles: Tokens,
    solver: Solver,
    on_step: Callable[[Step], None] | None = None,
    on_drawn: Callable[[list[Outcome | None]], None] | None = None,
) -> list[Outcome]:
    """Solve puzzles of one size, [puzzles, cells] with -1 for a blank.

    `on_drawn` sees, after every batch, what became of each puzzle so far; None is one that was not tried yet.
    """
    check_fits(model, puzzles)
    outcomes: list[Outcome | None] = [None] * len(puzzles)
    made = 0
    while made < solver.tries:
        count = min(max(1, made), solver.tries - made)
        open_ones = [index for index, outcome in enumerate(outcomes) if outcome is None or not outcome.solved]
        draws = [Draw(index, made + 1 + attempt) for index in open_ones for attempt in range(count)]
        for first in range(0, len(draws), solver.batch):
            part = draws[first : first + solver.batch]
            _settle(outcomes, part, puzzles, _draw(model, puzzles, solver, part, on_step))
            if on_drawn is not None:
                on_drawn(list(outcomes))
        made += count
    return [outcome for outcome in outcomes if outcome is not None]


def check_fits(model: Model, puzzles: Tokens) -> None:
    """Raise unless the model's grids are of the puzzles' size."""
    side, known, length = SIDES[puzzles.shape[1]], model.process.vocab_size, model.length
    if length is not None and length != known * known:
        raise ValueError(f"the model draws {length} of {known} tokens, which is not a Sudoku; name another")
    if side != known:
        raise ValueError(
            f"the puzzle has side {side}, but the model solves side {known}; name one that fits with --model, "
            f"such as the run folder of tokenloom train --recipe sudoku{side}"
        )


def _draw(
    model: Model, puzzles: Tokens, solver: Solver, draws: list[Draw], on_step: Callable[[Step], None] | None
) -> Samples:
    chosen = puzzles[[draw.puzzle for draw in draws]]
    givens = [repr(puzzle) for puzzle in chosen.tolist()]

    def valid(grids: Tokens, rows: Int[Tensor, "rows"]) -> Bool[Tensor, "rows"]:
        return obeys(grids, chosen[rows])

    seeds = [derive_seed(solver.seed, "solve", text, draw.attempt) for text, draw in zip(givens, draws, strict=True)]
    return solver.sampler.run(
        model,
        len(draws),
        length=puzzles.shape[1],
        given=(chosen.clamp(min=0), chosen != BLANK),
        generator=RowGenerators(seeds),
        on_step=on_step,
        until=valid if solver.until_valid else None,
    )


def obeys(grids: Tokens, puzzles: Tokens) -> Bool[Tensor, "batch"]:
    """Whether every grid obeys the rules and keeps the givens of its puzzle (-1 is a blank)."""
    if grids.shape != puzzles.shape:
        raise ValueError(f"grids must have shape {list(puzzles.shape)}, got {list(grids.shape)}")
    return is_valid(grids, SIDES[grids.shape[1]]) & ((grids == puzzles) | (puzzles == BLANK)).all(1)


def _settle(outcomes: list[Outcome | None], draws: list[Draw], puzzles: Tokens, samples: Samples) -> None:
    """Note every draw; the first of a puzzle that obeys the rules and keeps the givens stays."""
    valid = obeys(samples.tokens, puzzles[[draw.puzzle for draw in draws]])
    rows = zip(draws, samples.tokens.tolist(), valid.tolist(), samples.evaluations.tolist(), strict=True)
    for draw, grid, good, cost in rows:
        before = outcomes[draw.puzzle]
        spent = cost + (0 if before is None else before.evaluations)
        if before is None or not before.solved:
            outcomes[draw.puzzle] = Outcome(tuple(grid), good, draw.attempt, spent)
