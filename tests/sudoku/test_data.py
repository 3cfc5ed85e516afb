"""Sudoku: exact search, symmetries, splits and files.  Statistical tests: fixed seeds, false-alarm rate 1e-6 each."""

import gzip
import math
import re
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.statistics import assert_frequencies
from tokenloom.sudoku.data import SudokuDataset, SudokuSource, draw_given, grid_decoder, random_grids
from tokenloom.sudoku.puzzles import is_valid
from tokenloom.sudoku.solver import BLANK, BOXES, solve
from tokenloom.sudoku.symmetries import augment, class_keys, draw_cell_moves
from tokenloom.sudoku.text import format_grid, read_puzzles

SIDES = sorted(BOXES)

EASY = "530070000600195000098000060800060003400803001700020006060000280000419005000080079"
EASY_SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
SEVENTEEN = "000000010400000000020000000000050407008000300001090000300400200050100000000806000"
SEVENTEEN_SOLUTION = "693784512487512936125963874932651487568247391741398625319475268856129743274836159"
FOUR, FOUR_SOLUTION = "3102200002100320", "3142243142131324"
GOOD = f"Puzzle,Solution\n{FOUR},{FOUR_SOLUTION}\n"


def cells(text: str) -> list[int]:
    return [BLANK if character in "0." else int(character) - 1 for character in text]


def brute_valid(grid: list[int], side: int) -> bool:
    """The rules, written out."""
    height, width = BOXES[side]
    square = [grid[start : start + side] for start in range(0, side * side, side)]
    units = square + [[line[column] for line in square] for column in range(side)]
    corners = [(top, left) for top in range(0, side, height) for left in range(0, side, width)]
    units += [[square[top + i][left + j] for i in range(height) for j in range(width)] for top, left in corners]
    return all(sorted(unit) == list(range(side)) for unit in units)


def assert_uniform_permutations(drawn: Tensor) -> None:
    every = torch.tensor(list(permutations(range(drawn.shape[1]))))
    counts = (drawn[:, None] == every).all(-1).sum(0)
    assert counts.sum() == len(drawn), "no permutation"
    assert_frequencies(counts, torch.full((len(every),), 1 / len(every)))


def test_known_puzzles_have_their_one_solution() -> None:
    for puzzle, solution in ((EASY, EASY_SOLUTION), (SEVENTEEN, SEVENTEEN_SOLUTION), (FOUR, FOUR_SOLUTION)):
        assert solve(cells(puzzle), math.isqrt(len(puzzle)), limit=10) == [tuple(cells(solution))]


def test_a_rectangle_of_two_digits_leaves_two_solutions() -> None:
    """Cells (3, 5), (3, 8), (4, 5) and (4, 8) hold 1 3 / 3 1 in two boxes of one band: the digits can change places."""
    two = cells(EASY_SOLUTION)
    corners = [27 + 5, 27 + 8, 36 + 5, 36 + 8]
    assert [two[cell] + 1 for cell in corners] == [1, 3, 3, 1]
    for cell in corners:
        two[cell] = BLANK
    found = solve(two, 9, limit=10)
    assert len(found) == 2
    assert is_valid(torch.tensor(found), 9).all()
    assert solve(two, 9, limit=1) == found[:1]


def test_a_puzzle_without_a_solution_has_none() -> None:
    blocked = "012300000" + "".join(f"{digit}00000000" for digit in (4, 5, 0, 6, 7, 8, 9, 0))
    assert solve(cells(blocked), 9) == [], "the first cell has no digit"
    assert solve(cells(FOUR_SOLUTION[:-1] + "3"), 4) == [], "a complete grid with a digit twice in a row"
    assert solve(cells("7" + SEVENTEEN[1:]), 9) == [], "the one solution starts with a 6"


def test_the_search_finds_all_288_grids_of_side_4() -> None:
    found = solve([BLANK] * 16, 4, limit=1000)
    assert len(found) == len(set(found)) == 288
    assert all(brute_valid(list(grid), 4) for grid in found)


@pytest.mark.parametrize("side", SIDES)
def test_is_valid_agrees_with_the_rules(side: int, generator: torch.Generator) -> None:
    grids = random_grids(side, 60, seed=1).long()
    swapped = grids.clone()
    first, second = torch.randint(0, side * side, (2, len(grids)), generator=generator)
    rows = torch.arange(len(grids))
    swapped[rows, first], swapped[rows, second] = grids[rows, second], grids[rows, first]
    masked = grids.clone()
    masked[:, 3] = side
    cyclic = (torch.arange(side)[:, None] + torch.arange(side)).remainder(side).flatten()[None]  # only boxes are broken
    for batch in (grids, swapped, masked, cyclic):
        assert is_valid(batch, side).tolist() == [brute_valid(grid, side) for grid in batch.tolist()]
    assert is_valid(grids, side).all()
    assert not is_valid(torch.cat([masked, cyclic]), side).any()


@pytest.mark.parametrize("side", SIDES)
def test_augmentation_keeps_the_rules_and_the_class(side: int, generator: torch.Generator) -> None:
    grids = random_grids(side, 300, seed=2).long()
    moved = augment(grids, None, generator, side)[0]
    assert is_valid(moved, side).all()
    assert (moved != grids).any(1).float().mean() > 0.9
    assert class_keys(moved, side) == class_keys(grids, side)


@pytest.mark.parametrize("side", SIDES)
def test_every_kind_of_symmetry_is_uniform(side: int, generator: torch.Generator) -> None:
    """The first cell comes from every cell; bands, stacks, rows and columns in them take every order equally often."""
    count, (height, width) = 20_000, BOXES[side]
    moves = draw_cell_moves(count, side, generator, torch.device("cpu")).view(count, side, side)
    corner = moves[:, 0, 0]
    assert_frequencies(torch.bincount(corner, minlength=side * side), torch.full((side * side,), side**-2.0))
    across = moves[:, 0, 0] // side != moves[:, 0, 1] // side
    square = height == width
    assert_frequencies(torch.bincount(across.long(), minlength=2), torch.tensor([0.5, 0.5] if square else [1.0, 0.0]))
    upright = moves[~across]
    assert (upright // side == upright[:, :, :1] // side).all(), "rows stay rows"
    bands = upright[:, :, 0] // side // height
    assert (bands.view(-1, side // height, height) == bands[:, ::height, None]).all(), "bands stay bands"
    for lines, thickness in ((upright[:, :, 0] // side, height), (upright[:, 0] % side, width)):
        assert_uniform_permutations(lines[:, :thickness] % thickness)
        assert_uniform_permutations(lines[:, ::thickness] // thickness)


def test_digits_are_relabelled_uniformly_whatever_the_move(generator: torch.Generator) -> None:
    """Where the digits 1, 2, ... of a grid of side 4 go: all 4! relabellings of the moved grid, equally often."""
    grid = torch.tensor(cells(FOUR_SOLUTION)).expand(20_000, -1)
    moves = draw_cell_moves(20_000, 4, torch.Generator().manual_seed(1), torch.device("cpu"))
    moved, old = augment(grid, None, torch.Generator().manual_seed(1), 4)[0], grid.gather(1, moves)
    labels = torch.stack([moved.gather(1, (old == digit).int().argmax(1, keepdim=True))[:, 0] for digit in range(4)], 1)
    assert (labels.gather(1, old) == moved).all()
    assert_uniform_permutations(labels)


def test_the_invariant_tells_classes_apart() -> None:
    """2 of 2 classes of side 4, most of the 49 of side 6, and 9 x 9 grids that were searched one by one."""
    assert len(set(class_keys(random_grids(4, 288, 0), 4))) == 2
    assert 35 <= len(set(class_keys(random_grids(6, 3000, 0), 6))) <= 49
    assert len(set(class_keys(random_grids(9, 300, 0), 9))) == 300


def check_dataset(data: SudokuDataset, side: int, generator: torch.Generator) -> None:
    assert data.vocab_size == side
    assert is_valid(torch.cat([data.train, data.valid]), side).all()
    assert data.outline.relations is not None
    assert data.outline.relations.shape == (4, side * side, side * side)
    rows = torch.arange(2) % len(data.valid)
    grids, _ = data.draw("train", rows, generator)
    assert is_valid(grids, side).all()
    assert torch.equal(grids, data.train[rows].long()) == (side == 4)  # too few grids to move one into the other split
    assert torch.equal(data.draw("valid", rows, generator)[0], data.valid[rows].long())


@pytest.mark.parametrize(("side", "rows"), [(6, 3000), (9, 400)])
def test_splits_share_no_grid_up_to_symmetry(side: int, rows: int, generator: torch.Generator) -> None:
    data = SudokuSource(side=side, rows=rows, givens=(9, 30)).load(valid_fraction=0.1)
    check_dataset(data, side, generator)
    assert len(data.train) + len(data.valid) == rows
    assert 0.05 * rows < len(data.valid) < 0.2 * rows
    seen = set(class_keys(data.train, side))
    for _ in range(3):
        assert not seen & set(class_keys(augment(data.valid.long(), None, generator, side)[0], side))


def test_symmetric_copies_stay_in_one_split(tmp_path: Path, generator: torch.Generator) -> None:
    """Five grids in forty copies each: a split by rows would put copies of all five on both sides."""
    copies = augment(random_grids(9, 5, 7).long().repeat(40, 1), None, generator, 9)[0]
    text = [format_grid(grid) for grid in copies.tolist()]
    path = tmp_path / "copies.csv"
    path.write_text("quizzes,solutions\n" + "".join(f"{'0' * 81},{grid}\n" for grid in text))
    data = SudokuSource(path=str(path)).load(valid_fraction=0.2)
    assert (len(data.train), len(data.valid)) == (160, 40)
    assert not set(class_keys(data.train, 9)) & set(class_keys(data.valid, 9))


@pytest.mark.parametrize("rows", [2, 100, 10_000])
def test_side_4_splits_its_288_grids_without_augmentation(rows: int, generator: torch.Generator) -> None:
    data = SudokuSource(side=4, rows=rows, givens=(4, 10)).load(valid_fraction=0.25)
    train, valid = ({tuple(grid) for grid in split.tolist()} for split in (data.train, data.valid))
    check_dataset(data, 4, generator)
    assert not train & valid
    assert len(train) + len(valid) == len(data.train) + len(data.valid) == min(rows, 288)


def test_the_number_and_the_places_of_givens_are_uniform(generator: torch.Generator) -> None:
    grids = random_grids(6, 1, 0).long().expand(20_000, -1)
    given = draw_given(grids, None, generator, low=8, high=13)
    expected = torch.zeros(37)
    expected[8:14] = 1 / 6
    assert_frequencies(torch.bincount(given.sum(1), minlength=37), expected)
    few = draw_given(grids, None, generator, low=2, high=2).nonzero()[:, 1].view(-1, 2)
    pairs = torch.zeros(36, 36).index_put((few[:, 0], few[:, 1]), torch.tensor(1.0), accumulate=True)
    assert_frequencies(pairs, torch.ones(36, 36).triu(1) / 630)


def test_a_seed_gives_the_same_data_and_every_parameter_shows_in_the_fingerprint() -> None:
    source = SudokuSource(side=6, rows=60, givens=(8, 24))
    data, again = source.load(), source.load()
    assert torch.equal(torch.cat([data.train, data.valid]), torch.cat([again.train, again.valid]))
    assert data.fingerprint == again.fingerprint
    others = [replace(source, rows=61), replace(source, seed=1), replace(source, givens=(1, 2))]
    found = {data.fingerprint, source.load(valid_fraction=0.3).fingerprint, *(one.load().fingerprint for one in others)}
    assert len(found) == 5


def test_a_grid_is_written_in_lines_with_its_boxes_apart_and_a_dot_for_a_mask() -> None:
    masked = torch.tensor([cells(FOUR_SOLUTION)])
    masked[0, 5] = 4
    assert grid_decoder(4)(masked) == ["3 1  4 2\n2 .  3 1\n\n4 2  1 3\n1 3  2 4"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "puzzles.csv is empty"),
        ("Puzzle,Solution\n", "puzzles.csv holds no puzzle"),
        ("Puzzle,Answer\n1,2\n", "puzzles.csv needs the columns .* but its columns are Puzzle, Answer"),
        (f"Puzzle,Solution\n{FOUR[:-1]},{FOUR_SOLUTION}\n", "puzzle in row 1 of .* has 15 characters; .* 16, 36"),
        (f"{GOOD}{FOUR},{FOUR_SOLUTION}4\n", "solution in row 2 of puzzles.csv has 17 characters"),
        (f"{GOOD}\n{FOUR}\n", "solution in row 2 of puzzles.csv has 0 characters"),
        (f"{GOOD}{EASY},{EASY_SOLUTION}\n", "puzzle in row 2 of puzzles.csv has 81 characters; a grid has 16"),
        (f"{GOOD}{FOUR[:-1]}x,{FOUR_SOLUTION}\n", "puzzle in row 2 of .* has 'x' at row 4, column 4; write 1..4"),
        (f"{GOOD}{FOUR[:-1]}\u00e9,{FOUR_SOLUTION}\n", "puzzle in row 2 of puzzles.csv has '\u00e9'"),
        (f"{GOOD}{FOUR},5{FOUR_SOLUTION[1:]}\n", "solution in row 2 of puzzles.csv has '5' at row 1, column 1"),
        (f"{GOOD}{FOUR},{FOUR}\n", "solution in row 2 of puzzles.csv has a blank"),
        (f"{GOOD}{FOUR},{FOUR_SOLUTION[:-1]}3\n", "solution in row 2 of puzzles.csv has a digit twice"),
        (f"{GOOD}4{FOUR[1:]},{FOUR_SOLUTION}\n", "solution in row 2 of puzzles.csv changes a given"),
        ("\0\1\2", "puzzles.csv is a binary file"),
        (b"\x89PNG\r\n\xff\xfe", "puzzles.csv is not UTF-8 text"),
        ("Puzzle\rSolution", "puzzles.csv is not a CSV file"),
        (gzip.compress(GOOD.encode() * 9, mtime=0)[:-12], "puzzles.csv is not a whole gzip file"),
        (b"\x1f\x8b\x00junk", "puzzles.csv is not a whole gzip file"),
    ],
)
def test_a_wrong_file_is_met_with_a_sentence(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    path = tmp_path / "puzzles.csv"
    for content in (text,) if isinstance(text, bytes) else (text.encode(), gzip.compress(text.encode())):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=sentence):
            read_puzzles(path)


def test_wrong_parameters_are_met_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "four.csv"
    path.write_text(GOOD + f"{FOUR.replace('0', '.')},{FOUR_SOLUTION}\n")
    assert torch.equal(read_puzzles(path).given, (torch.tensor(cells(FOUR)) != BLANK).expand(2, -1))
    source = SudokuSource(side=4, givens=(4, 10), path=str(path))
    for sentence, call in (
        ("side 4, 6 or 9, got 5", SudokuSource(side=5).load),
        ("givens must be a range within 0..16 for side 4, got 9..8", replace(source, givens=(9, 8)).load),
        ("valid_fraction must be in (0, 1), got 1", partial(source.load, valid_fraction=1.0)),
        ("rows must be at least 2, one for each split, got 1", replace(source, rows=1).load),
        ("hard must be in [0, 1], and 0 unless", replace(source, hard=1.5, puzzles="unique").load),
        ("got -0.1 with unique puzzles", replace(source, hard=-0.1, puzzles="unique").load),
        ("got 0.5 with random puzzles", replace(source, hard=0.5).load),
        ("four.csv has grids of side 4, but side is 9; set it to 4", SudokuSource(path=str(path)).load),
        ("none of the 2 grids can be held out", source.load),
        ("a puzzle of side 4 has 16 cells, got 3", partial(solve, [0, 1, 2], 4)),
        ("cell 0 holds 4; tokens are in 0..3 and a blank is -1", partial(solve, [4] * 16, 4)),
    ):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            call()
