"""Puzzles with one solution: found, kept, moved with their grids and never lost from what a row is given.

Statistical tests: fixed seeds, false-alarm rate 1e-6 each.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.statistics import assert_frequencies
from tokenloom.sudoku import puzzles as puzzles_module
from tokenloom.sudoku.data import EXTRA, UNIQUE_SHARE, SudokuDataset, SudokuSource, draw_given, random_grids
from tokenloom.sudoku.puzzles import Puzzles, is_valid, minimal_puzzles, unique_puzzles
from tokenloom.sudoku.solver import BLANK, solve
from tokenloom.sudoku.symmetries import augment, class_keys
from tokenloom.sudoku.text import format_grid
from tokenloom.training.batches import training_batch


def assert_unique(solutions: Tensor, given: Tensor, side: int, minimal: bool = False) -> None:
    """Every puzzle has its solution and no other; a minimal one has two as soon as it loses a given."""
    for solution, flags in zip(solutions.long(), given, strict=True):
        assert solve(torch.where(flags, solution, BLANK).tolist(), side) == [tuple(solution.tolist())]
        for cell in flags.nonzero()[:, 0] if minimal else ():
            fewer = flags.index_fill(0, cell, False)
            assert len(solve(torch.where(fewer, solution, BLANK).tolist(), side)) == 2


@pytest.fixture(scope="module")
def puzzles(cache: Path) -> Puzzles:
    return minimal_puzzles(6, 40, 0, cache)


@pytest.fixture(scope="module")
def data(cache: Path) -> SudokuDataset:
    return SudokuSource(side=6, rows=40, givens=(8, 20), puzzles="unique").load(cache=cache)


def test_a_minimal_puzzle_has_its_one_solution_and_cannot_lose_a_given(puzzles: Puzzles) -> None:
    assert_unique(puzzles.solutions[:10], puzzles.given[:10], 6, minimal=True)


def test_puzzles_are_found_once(cache: Path, puzzles: Puzzles, monkeypatch: pytest.MonkeyPatch) -> None:
    other = minimal_puzzles(6, 40, 1, cache)
    assert not torch.equal(other.solutions, puzzles.solutions)
    monkeypatch.delattr(puzzles_module, "random_puzzle")
    again = minimal_puzzles(6, 40, 0, cache)
    assert torch.equal(again.solutions, puzzles.solutions)
    assert torch.equal(again.given, puzzles.given)


def test_puzzles_to_evaluate_on_are_none_of_the_training_up_to_symmetry(cache: Path) -> None:
    """Of the 5e9 classes of side 9, those of 6 grids are not among those of 16; with one seed for all."""
    fresh = set(class_keys(unique_puzzles(6, (40, 45), 0).solutions, 9))
    assert not fresh & set(class_keys(minimal_puzzles(9, 8, 0, cache).solutions, 9))
    assert not fresh & set(class_keys(random_grids(9, 8, 0), 9))


def test_a_long_search_is_announced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puzzles_module, "PER_MINUTE", {6: 1})
    with pytest.warns(UserWarning, match="finding 2 puzzles with one solution takes about 2 minutes, once"):
        minimal_puzzles(6, 2, 0, tmp_path)
    minimal_puzzles(6, 2, 0, tmp_path)  # kept; a warning would be an error


@pytest.mark.parametrize(("side", "low", "high"), [(6, 8, 10), (9, 17, 30)])
def test_minimal_puzzles_to_evaluate_on_cannot_lose_a_given(side: int, low: int, high: int) -> None:
    found = unique_puzzles(5, (low, high), 0, side, minimal=True)
    assert ((found.given.sum(1) >= low) & (found.given.sum(1) <= high)).all()
    assert_unique(found.solutions, found.given, side, minimal=True)


@pytest.mark.parametrize(("side", "givens"), [(4, (6, 8)), (6, (12, 15)), (9, (20, 29))])
def test_puzzles_have_one_solution_and_spread_over_their_range(side: int, givens: tuple[int, int]) -> None:
    found = unique_puzzles(20, givens, 3, side)
    if side == 6:  # the same random numbers for every side
        again, other = unique_puzzles(20, givens, 3, side), unique_puzzles(20, givens, 4, side)
        assert torch.equal(found.posed, again.posed)
        assert not torch.equal(found.solutions, other.solutions)
    counts = found.given.sum(1)
    assert ((givens[0] <= counts) & (counts <= givens[1])).all()
    reached = range(24 if side == 9 else givens[0], givens[1] + 1)
    assert all((counts == number).sum() >= 20 // (givens[1] - givens[0] + 1) for number in reached)
    assert_unique(found.solutions, found.given, side)


def test_a_range_of_givens_out_of_reach_is_met_with_a_sentence() -> None:
    for count, givens, sentence in (
        (0, (8, 20), "count must be at least 1, got 0"),
        (1, (20, 8), r"givens must be a range within 0..36 for side 6, got 20..8"),
        (1, (0, 2), "none of 100 grids had such a puzzle of 0 to 2 givens; widen the range"),
    ):
        with pytest.raises(ValueError, match=sentence):
            unique_puzzles(count, givens, 0, 6)


def test_a_grid_and_its_puzzle_move_together(puzzles: Puzzles, generator: torch.Generator) -> None:
    solutions = puzzles.solutions.long()
    moved, given = augment(solutions, puzzles.given, generator, 6)
    assert given is not None
    assert (moved != solutions).any(1).all()
    assert (given != puzzles.given).any(1).float().mean() > 0.9
    assert_unique(moved, given, 6)


def test_most_rows_are_given_a_superset_of_their_puzzle(puzzles: Puzzles, generator: torch.Generator) -> None:
    """The share, the number of extra cells and their places are as stated; with low = high = 0 the other rows show."""
    count = 20_000
    puzzle = puzzles.given[:1].expand(count, -1)
    given = draw_given(puzzles.solutions[:1].long().expand(count, -1), puzzle, generator, low=0, high=0)
    unique = given.any(1)
    assert_frequencies(torch.bincount(unique.long(), minlength=2), torch.tensor([1 - UNIQUE_SHARE, UNIQUE_SHARE]))
    assert (given[unique] & puzzle[unique] == puzzle[unique]).all()
    extra = (given & ~puzzle)[unique]
    assert_frequencies(torch.bincount(extra.sum(1), minlength=EXTRA + 1), torch.full((EXTRA + 1,), 1 / (EXTRA + 1)))
    single = extra[extra.sum(1) == 1][:, ~puzzle[0]].sum(0)
    assert_frequencies(single, torch.full((len(single),), 1 / len(single)))


def test_rows_of_a_split_keep_their_own_puzzle(data: SudokuDataset) -> None:
    assert data.puzzles is not None
    assert not set(class_keys(data.train, 6)) & set(class_keys(data.valid, 6))
    for table, flags in zip((data.train, data.valid), data.puzzles, strict=True):
        assert_unique(table[:10], flags[:10], 6)


def test_training_is_given_puzzles_with_one_solution_again_for_the_same_step(data: SudokuDataset) -> None:
    """A minimal puzzle of the moved grid is never broken: only rows of random cells may have two solutions."""

    def drawn(step: int) -> Tensor:
        batch = training_batch(data, 64, step, 5, 1e-3)
        assert batch.given is not None
        return torch.stack([batch.x_0, batch.given.long()])

    x_0, given = first = drawn(3)
    assert torch.equal(first, drawn(3))
    assert (first != drawn(4)).flatten(1).any(1).all()
    assert is_valid(x_0, 6).all()
    posed = torch.where(given == 1, x_0, BLANK).tolist()
    assert sum(len(solve(puzzle, 6)) == 1 for puzzle in posed) >= UNIQUE_SHARE * 64 * 0.8


def test_a_file_s_own_puzzles_are_used(tmp_path: Path, puzzles: Puzzles) -> None:
    rows = zip(puzzles.posed.tolist(), puzzles.solutions.tolist(), strict=True)
    path = tmp_path / "six.csv"
    path.write_text("quizzes,solutions\n" + "\n".join(",".join(map(format_grid, row)) for row in rows))
    source = SudokuSource(side=6, path=str(path), givens=(8, 20), rows=40)
    plain, read = source.load(), replace(source, puzzles="unique").load()
    assert plain.puzzles is None
    assert read.puzzles is not None
    known = {tuple(row) for row in torch.cat([puzzles.solutions, puzzles.given], 1).tolist()}
    tables = (torch.cat(parts, 1) for parts in zip((read.train, read.valid), read.puzzles, strict=True))
    assert {tuple(row) for table in tables for row in table.tolist()} == known
    assert plain.fingerprint != read.fingerprint
