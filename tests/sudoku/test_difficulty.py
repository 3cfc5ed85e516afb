"""How deep logic must look: against a slow oracle, the same for all images of a puzzle, and its use in training."""

import functools
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tokenloom.sudoku import difficulty as difficulty_module
from tokenloom.sudoku.data import SudokuSource, draw_given
from tokenloom.sudoku.difficulty import DEEP, difficulty, hard_rows
from tokenloom.sudoku.puzzles import Puzzles, minimal_puzzles
from tokenloom.sudoku.solver import BLANK, cell_units
from tokenloom.sudoku.symmetries import augment
from tokenloom.sudoku.text import parse_puzzles

NEWSPAPER = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
TOUGH = "....7..2.8.......6.1.2.5...9.54....8.........3....85.1...3.2.8.4.......9.7..6...."
INKALA = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."

Grid = list[set[int]]


@functools.cache
def units(side: int) -> list[list[int]]:
    return [[cell for cell, of in enumerate(cell_units(side)) if unit in of] for unit in range(3 * side)]


def one_step(grid: Grid, side: int) -> Grid | None:
    """One step of singles in words: from the grid before it alone; None for a contradiction."""
    after = [set(cell) for cell in grid]
    for unit in units(side):
        for other in (cell for cell in unit if len(grid[cell]) == 1):
            for cell in unit:
                after[cell] -= grid[other] if cell != other else set()
        for digit in range(side):
            places = [cell for cell in unit if digit in grid[cell]]
            if not places:
                return None
            if len(places) == 1:
                after[places[0]] &= {digit}
    return after if all(after) else None


def solve_with(grid: Grid, side: int, depth: int) -> Grid | None:
    """Singles and trials of at most `depth` steps, one candidate after the other, until nothing changes."""
    while True:
        while (after := one_step(grid, side)) != grid:
            if after is None:
                return None
            grid = after
        open_ones = [(cell, digit) for cell, digits in enumerate(grid) if len(digits) > 1 for digit in digits]
        wrong = next((pair for pair in open_ones if refuted(grid, *pair, side, depth)), None)
        if wrong is None:
            return grid
        cell, digit = wrong
        grid = [other - {digit} if place == cell else other for place, other in enumerate(grid)]


def refuted(grid: Grid, cell: int, digit: int, side: int, depth: int) -> bool:
    trial: Grid | None = [{digit} if place == cell else other for place, other in enumerate(grid)]
    for _ in range(depth):
        trial = None if trial is None else one_step(trial, side)
    return trial is None


def slow(puzzle: list[int], side: int) -> int:
    grid = [set(range(side)) if digit == BLANK else {digit} for digit in puzzle]
    for depth in range(DEEP):
        found = solve_with(grid, side, depth)
        if found is None:
            return DEEP
        if all(len(cell) == 1 for cell in found):
            return depth
    return DEEP


@pytest.fixture(scope="module")
def nine(cache: Path) -> Puzzles:
    return minimal_puzzles(9, 20, 5, cache)


@pytest.mark.parametrize(("side", "rows", "each"), [(4, 10, 9), (6, 40, 2), (9, 20, 1)])
def test_difficulty_is_the_least_depth_of_trials_that_solves(side: int, rows: int, each: int, cache: Path) -> None:
    puzzles = minimal_puzzles(side, rows, 5 if side == 9 else 0, cache).posed
    found = difficulty(puzzles, side)
    some = torch.cat([(found == depth).nonzero()[:each, 0] for depth in range(3)])
    assert int(found[some].max()) == (0 if side == 4 else 2)
    assert found[some].tolist() == [slow(puzzle, side) for puzzle in puzzles[some].tolist()]


def test_easy_and_hard_puzzles_are_known_as_such() -> None:
    puzzles = parse_puzzles([NEWSPAPER, TOUGH, INKALA])  # the last needs trials within trials
    assert difficulty(puzzles, 9).tolist() == [0, 4, DEEP]


def test_no_solution_and_several_are_deep_and_a_full_grid_is_easy(nine: Puzzles) -> None:
    full = nine.solutions[:1].long()
    wrong = full.clone()
    wrong[0, 0] = full[0, 1]
    assert difficulty(torch.cat([torch.full_like(full, BLANK), wrong, full]), 9).tolist() == [DEEP, DEEP, 0]
    assert difficulty(full[:0], 9).tolist() == []


@pytest.mark.parametrize(("puzzle", "side"), [([[9] * 81], 9), ([[-2] * 81], 9), ([[0] * 80], 9), ([[0] * 25], 5)])
def test_what_is_no_puzzle_is_refused(puzzle: list[list[int]], side: int) -> None:
    with pytest.raises(ValueError, match=r"side|cells"):
        difficulty(torch.tensor(puzzle), side)


def test_images_of_a_puzzle_are_equally_difficult(nine: Puzzles) -> None:
    moved, given = augment(nine.solutions.long(), nine.given, torch.Generator().manual_seed(1), 9)
    assert given is not None
    before, after = difficulty(nine.posed, 9), difficulty(torch.where(given, moved, BLANK), 9)
    assert before.max() > 1
    assert after.tolist() == before.tolist()


def test_hard_rows_have_their_share_and_grow_in_proportion_to_difficulty() -> None:
    rated = torch.tensor([0] * 600 + [1] * 300 + [3] * 100)
    rows = hard_rows(rated, 0.8, 0)
    assert len(rows) == 1000
    assert rated[rows].bincount().tolist() == [200, 400, 0, 400]
    assert torch.equal(rows, hard_rows(rated, 0.8, 0))
    assert not torch.equal(rows, hard_rows(rated, 0.8, 1))
    assert set(rows.bincount()[600:900].tolist()) == {1, 2}
    assert (rated[hard_rows(rated, 1.0, 0)] > 0).all()
    with pytest.raises(ValueError, match="none of the 20 training puzzles need more than singles; change hard or rows"):
        hard_rows(torch.zeros(20, dtype=torch.long), 0.5, 0)


def test_hard_puzzles_are_drawn_for_training_only_and_rated_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SudokuSource(side=6, rows=40, givens=(8, 20), puzzles="unique")
    plain, hard = source.load(cache=cache), replace(source, hard=0.6).load(cache=cache)
    assert plain.fingerprint == "e5e3debe01b1877771ffdc9a11dfc8c1c5a5d661f9ff8f90773bae961d9e22d7"  # as it always was
    assert plain.puzzles is not None
    assert hard.puzzles is not None
    assert hard.train.shape == plain.train.shape
    assert torch.equal(hard.valid, plain.valid)
    assert torch.equal(hard.puzzles[1], plain.puzzles[1])
    assert hard.fingerprint != plain.fingerprint
    rated = difficulty(torch.where(hard.puzzles[0], hard.train.long(), BLANK), 6)
    assert int((rated > 0).sum()) == round(0.6 * len(rated))
    tables = (torch.cat([plain.train, plain.puzzles[0]], 1), torch.cat([hard.train, hard.puzzles[0]], 1))
    kept, drawn = ({tuple(row) for row in table.tolist()} for table in tables)
    assert drawn <= kept
    monkeypatch.delattr(difficulty_module, "difficulty")
    assert replace(source, hard=0.6).load(cache=cache).fingerprint == hard.fingerprint


def test_the_bare_share_of_rows_is_given_its_puzzle_and_no_more() -> None:
    x_0, puzzle = torch.zeros(400, 81, dtype=torch.long), (torch.arange(81) < 24).expand(400, -1)
    given = draw_given(x_0, puzzle, torch.Generator().manual_seed(0), 40, 50, bare=1.0)
    own = (given & puzzle).sum(1) == 24
    assert own.double().mean() > 0.6
    assert (given[own] == puzzle[own]).all()
