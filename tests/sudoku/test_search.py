"""The exact search over many puzzles against the one that fills a single grid, cell after cell."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tokenloom.sudoku.puzzles import minimal_puzzles
from tokenloom.sudoku.search import guesses, search
from tokenloom.sudoku.singles import candidates
from tokenloom.sudoku.solver import BLANK, solve
from tokenloom.sudoku.symmetries import augment
from tokenloom.sudoku.text import parse_puzzles
from tokenloom.types import Tokens

INKALA = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."
NONE = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."
"""No solution, which takes a million cells to prove."""


def thinned(side: int, cache: Path, most: int) -> Tokens:
    """Minimal puzzles, and the same without one, two, ... of their givens."""
    puzzles = minimal_puzzles(side, 20, 5, cache).posed
    rows = [puzzles]
    for out in range(1, most + 1):
        order = torch.rand(puzzles.shape, generator=torch.Generator().manual_seed(out)).masked_fill(puzzles == BLANK, 2)
        rows.append(torch.where(order.argsort(1).argsort(1) < out, BLANK, puzzles))
    return torch.cat(rows)


@pytest.mark.parametrize(("side", "most", "limit"), [(4, 2, 5), (6, 2, 7), (9, 1, 3)])
def test_solutions_are_those_of_the_search_in_one_grid(side: int, most: int, limit: int, cache: Path) -> None:
    puzzles = thinned(side, cache, most)
    found = search(candidates(puzzles, side), limit)
    assert found.complete.all()
    for index, puzzle in enumerate(puzzles.tolist()):
        every = solve(puzzle, side, 10_000)
        own = {tuple(row) for row in found.solutions[: found.count[index], :, index].tolist()}
        assert len(own) == found.count[index] == min(limit, len(every))
        assert own <= set(every)
    assert set(found.count[:20]) == {1}
    assert (found.count[20:] > 1).any()


def test_a_contradiction_has_no_solution_and_a_complete_grid_has_itself(cache: Path) -> None:
    grid = minimal_puzzles(9, 20, 5, cache).solutions[:1].long()
    wrong = grid.clone()
    wrong[0, 0] = grid[0, 1]
    found = search(candidates(torch.cat([wrong, grid]), 9))
    assert found.count.tolist() == [0, 1]
    assert found.solutions[0, :, 1].tolist() == grid[0].tolist()


def test_a_tree_does_not_depend_on_the_other_puzzles(cache: Path) -> None:
    puzzles = thinned(9, cache, 0)
    together = search(candidates(puzzles.repeat(40, 1), 9))
    for index in range(0, 20, 4):
        alone = search(candidates(puzzles[index : index + 1], 9))
        assert alone.guesses[0] == together.guesses[index] == together.guesses[index + 20]
        assert alone.depth[0] == together.depth[index]
    assert together.guesses.max() > 3


def test_guesses_are_none_where_singles_suffice_and_those_of_all_turned_images(cache: Path) -> None:
    puzzles = torch.cat([parse_puzzles([INKALA]), thinned(9, cache, 0)])
    rated = guesses(candidates(puzzles, 9))
    turned = puzzles.view(-1, 9, 9).rot90(1, (1, 2)).flatten(1)
    assert rated.tolist() == guesses(candidates(turned, 9)).tolist()
    assert rated[0] > 20
    assert (rated == 0).any()
    moved, given = augment(puzzles.clamp(min=0), puzzles != BLANK, torch.Generator().manual_seed(0), 9)
    assert given is not None
    images = guesses(candidates(torch.where(given, moved, BLANK), 9))
    assert ((images == 0) == (rated == 0)).all()


def test_a_search_ends_with_its_patience() -> None:
    found = search(candidates(parse_puzzles([NONE, INKALA]), 9), 2, patience=1000)
    assert found.complete.tolist() == [False, True]
    assert found.count.tolist() == [0, 1]
    assert np.all(found.guesses < 1100)
