"""Puzzles with one solution: found, kept, moved with their grids and never lost from what a row is given.

Statistical tests: fixed seeds, false-alarm rate 1e-6 each.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.statistics import assert_frequencies
from tokenloom.sudoku import puzzles as puzzles_module
from tokenloom.sudoku.data import (
    EXTRA,
    UNIQUE_SHARE,
    SudokuDataset,
    SudokuSource,
    draw_given,
    load_sudoku,
    random_grids,
)
from tokenloom.sudoku.network import GridOptions
from tokenloom.sudoku.puzzles import Puzzles, is_valid, minimal_puzzles, unique_puzzles
from tokenloom.sudoku.solver import BLANK, count_solutions, has_solution, solve
from tokenloom.sudoku.symmetries import augment_puzzles, class_keys
from tokenloom.training.batches import training_batch
from tokenloom.training.config import from_record
from tokenloom.training.recipes import recipe


def solutions_of(solution: Tensor, given: Tensor, side: int) -> list[tuple[int, ...]]:
    return solve(torch.where(given, solution.long(), BLANK).tolist(), side)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def puzzles(cache: Path) -> Puzzles:
    return minimal_puzzles(6, 40, 0, cache)


@pytest.fixture(scope="module")
def data(cache: Path) -> SudokuDataset:
    return load_sudoku(6, rows=40, givens=(8, 20), puzzles="unique", cache=cache)


def test_a_minimal_puzzle_has_its_one_solution_and_cannot_lose_a_given(puzzles: Puzzles) -> None:
    for solution, given in zip(puzzles.solutions[:10], puzzles.given, strict=False):
        assert solutions_of(solution, given, 6) == [tuple(solution.tolist())]
        for cell in given.nonzero()[:, 0]:
            fewer = given.index_fill(0, cell, False)
            assert count_solutions(torch.where(fewer, solution.long(), BLANK).tolist(), 6) == 2


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


def test_minimal_puzzles_to_evaluate_on_cannot_lose_a_given() -> None:
    found = unique_puzzles(5, (8, 10), 0, 6, minimal=True)
    assert ((found.given.sum(1) >= 8) & (found.given.sum(1) <= 10)).all()
    for solution, given in zip(found.solutions, found.given, strict=True):
        assert solutions_of(solution, given, 6) == [tuple(solution.tolist())]
        assert all(
            len(solutions_of(solution, given.index_fill(0, cell, False), 6)) == 2 for cell in given.nonzero()[:, 0]
        )


@pytest.mark.parametrize(("side", "givens"), [(6, (12, 15)), (9, (20, 29))])
def test_puzzles_to_evaluate_on_have_one_solution_and_spread_over_their_range(
    side: int, givens: tuple[int, int]
) -> None:
    found = unique_puzzles(20, givens, 3, side)
    again, other = unique_puzzles(20, givens, 3, side), unique_puzzles(20, givens, 4, side)
    assert torch.equal(found.solutions, again.solutions)
    assert torch.equal(found.given, again.given)
    assert not torch.equal(found.solutions, other.solutions)
    counts = found.given.sum(1)
    assert ((givens[0] <= counts) & (counts <= givens[1])).all()
    reached = range(24 if side == 9 else givens[0], givens[1] + 1)
    assert all((counts == number).sum() >= 20 // (givens[1] - givens[0] + 1) for number in reached)
    for solution, given in zip(found.solutions, found.given, strict=True):
        assert solutions_of(solution, given, side) == [tuple(solution.tolist())]


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
    moved, given = augment_puzzles(solutions, puzzles.given, generator, 6)
    assert given is not None
    assert (moved != solutions).any(1).all()
    assert (given != puzzles.given).any(1).float().mean() > 0.9
    for solution, flags in zip(moved, given, strict=True):
        assert solutions_of(solution, flags, 6) == [tuple(solution.tolist())]


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
        for solution, given in zip(table[:10], flags, strict=False):
            assert solutions_of(solution, given, 6) == [tuple(solution.tolist())]


def test_training_is_given_puzzles_with_one_solution_again_for_the_same_step(data: SudokuDataset) -> None:
    """A minimal puzzle of the moved grid is never broken: only rows of random cells may have two solutions."""
    batches = [training_batch(data, 64, step, 5, 1e-3) for step in (3, 3, 4)]
    first, again, later = [(batch.x_0, batch.given) for batch in batches]
    for before, after, other in zip(first, again, later, strict=True):
        assert before is not None
        assert after is not None
        assert other is not None
        assert torch.equal(before, after)
        assert not torch.equal(before, other)
    x_0, given = first
    assert given is not None
    assert is_valid(x_0, 6).all()
    one = [len(solutions_of(grid, given, 6)) == 1 for grid, given in zip(x_0, given, strict=True)]
    assert sum(one) >= UNIQUE_SHARE * 64 * 0.8


def test_a_file_s_own_puzzles_are_used(tmp_path: Path, puzzles: Puzzles) -> None:
    lines = ["quizzes,solutions"]
    for solution, given in zip(puzzles.solutions.tolist(), puzzles.given.tolist(), strict=True):
        quiz = "".join(str(digit + 1) if flag else "0" for digit, flag in zip(solution, given, strict=True))
        lines.append(quiz + "," + "".join(str(digit + 1) for digit in solution))
    path = tmp_path / "six.csv"
    path.write_text("\n".join(lines))
    source = SudokuSource(side=6, path=str(path), givens=(8, 20), rows=40)
    plain, read = source.load(), replace(source, puzzles="unique").load()
    assert plain.puzzles is None
    assert read.puzzles is not None
    known = {tuple(row) for row in torch.cat([puzzles.solutions, puzzles.given], 1).tolist()}
    found = {tuple(row) for table, flags in zip((read.train, read.valid), read.puzzles, strict=True)
             for row in torch.cat([table, flags], 1).tolist()}  # fmt: skip
    assert found == known
    assert plain.fingerprint != read.fingerprint


def test_the_choice_of_puzzles_and_network_is_part_of_a_config() -> None:
    config = recipe("sudoku9")
    changed = replace(config, data=SudokuSource(puzzles="unique"), network=GridOptions(loops=4))
    assert from_record(json.loads(json.dumps(changed.record()))) == changed != config


def test_puzzles_that_do_not_fit_their_grids_are_refused(data: SudokuDataset) -> None:
    assert data.puzzles is not None
    with pytest.raises(ValueError, match="must mark the positions of every row"):
        replace(data, puzzles=(data.puzzles[0][1:], data.puzzles[1]))


def test_a_search_for_a_solution_ends_with_its_patience() -> None:
    """The last puzzle takes a million cells to refute."""
    hard = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."
    cells = [BLANK if digit == "." else int(digit) - 1 for digit in hard]
    assert has_solution([BLANK] * 81, 9) is True
    assert has_solution([0, BLANK, BLANK, 3, BLANK, BLANK, 0, *[BLANK] * 2, 2, *[BLANK] * 5, 0], 4) is False
    assert has_solution(cells, 9, patience=1000) is None
