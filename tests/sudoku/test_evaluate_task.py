"""Solve rates of Sudokus: what counts as solved, the interval, and `tokenloom evaluate RUN --task sudoku`."""

import json
import math
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests.cli.helpers import Shell
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.data import SudokuSource, random_grids
from tokenloom.sudoku.difficulty import DEEP
from tokenloom.sudoku.evaluate_task import GIVENS, solve_rate, wilson
from tokenloom.sudoku.puzzles import Puzzles, violations
from tokenloom.sudoku.solver import BLANK
from tokenloom.sudoku.solving import obeys

COMMAND = ["evaluate", "sudoku4-udm-loo", "--task", "sudoku"]
SOLUTION = torch.tensor([[0, 1, 2, 3, 2, 3, 0, 1, 1, 0, 3, 2, 3, 2, 1, 0]])
OTHER = torch.tensor([[1, 0, 2, 3, 2, 3, 0, 1, 0, 1, 3, 2, 3, 2, 1, 0]])  # digits 1 and 2 of two columns exchanged


def puzzle(given: list[int]) -> Tensor:
    posed = torch.full_like(SOLUTION, BLANK)
    posed[0, given] = SOLUTION[0, given]
    return posed


def test_a_solution_obeys_every_rule_and_keeps_the_givens() -> None:
    assert obeys(SOLUTION, puzzle([0, 5])).tolist() == [True]
    assert obeys(OTHER, puzzle([5])).tolist() == [True]
    assert obeys(OTHER, puzzle([0])).tolist() == [False], "a given is changed"
    broken = SOLUTION + torch.eye(16, dtype=torch.long)  # the next digit in one cell, or a mask where there is none
    assert not obeys(torch.cat([broken, broken % 4]), puzzle([]).expand(32, -1)).any()


def surplus(grid: list[int], side: int, height: int, width: int) -> int:
    """The digits that are once too often, unit by unit."""
    rows = [[(row, column) for column in range(side)] for row in range(side)]
    columns = [[(row, column) for row in range(side)] for column in range(side)]
    corners = [(top, left) for top in range(0, side, height) for left in range(0, side, width)]
    boxes = [[(top + i, left + j) for i in range(height) for j in range(width)] for top, left in corners]
    held = [[grid[row * side + column] for row, column in unit] for unit in (*rows, *columns, *boxes)]
    return sum(max(0, digits.count(digit) - 1) for digits in held for digit in range(side))


@pytest.mark.parametrize(("side", "box"), [(4, (2, 2)), (6, (2, 3)), (9, (3, 3))])
def test_violations_count_every_digit_that_is_once_too_often(side: int, box: tuple[int, int]) -> None:
    grids = torch.randint(0, side, (20, side * side), generator=torch.Generator().manual_seed(side))
    grids = torch.cat([grids, torch.zeros(1, side * side, dtype=torch.long)])  # one digit everywhere
    assert violations(grids, side).tolist() == [surplus(grid, side, *box) for grid in grids.tolist()]
    assert violations(grids[-1:], side).item() == 3 * side * (side - 1)
    solved = random_grids(side, 3, seed=1).long()
    assert violations(solved, side).tolist() == [0, 0, 0]
    solved[:, 0] = side  # a mask
    assert violations(solved, side).tolist() == [3, 3, 3]


def test_wilson_interval_by_hand() -> None:
    """Of 10 hits in 10 trials: from 1 / (1 + z^2/10) to 1."""
    low, high = wilson(10, 10)
    assert low == pytest.approx(1 / (1 + 1.96**2 / 10))
    assert high == 1.0
    assert 0.01 < wilson(0, 300)[1] == pytest.approx(1 - wilson(300, 300)[0])  # no rate is certain
    low, high = wilson(50, 100)
    assert low + high == pytest.approx(1.0)
    assert (high - low) / 2 == pytest.approx(1.96 * math.sqrt(0.25 / 100 + 1.96**2 / 40000) / (1 + 1.96**2 / 100))


def knows(tokens: Tensor, time: Tensor) -> Tensor:
    return 50.0 * torch.nn.functional.one_hot(SOLUTION.expand(len(tokens), -1), 4).float()


def test_a_model_that_knows_the_solution_solves_and_one_that_guesses_does_not(guesser: tl.DiffusionModel) -> None:
    puzzles = Puzzles(4, SOLUTION.repeat(6, 1).to(torch.int8), torch.arange(16).lt(torch.arange(6)[:, None]))
    sure = tl.DiffusionModel(knows, tl.Masked(4), predicts=tl.Denoiser)
    found = solve_rate("sure", sure, puzzles, SamplerOptions(steps=4), repeats=2)
    assert (found.solve_rate, found.cell_accuracy, found.puzzles, found.repeats) == (1.0, 1.0, 6, 2)
    assert found.by_givens == dict.fromkeys(range(6), (1.0, 1))
    assert found.by_difficulty == {DEEP: (1.0, 6)}  # so few givens leave several solutions
    assert 1 < found.evaluations <= 4  # the sampler alone: it does not stop where it could
    assert found.violations == 0
    guessed = solve_rate("blind", guesser, puzzles, SamplerOptions(steps=4))
    assert guessed.solve_rate == 0.0
    assert 0 < guessed.cell_accuracy < 0.6
    assert 3 < guessed.violations < 30
    assert guessed.error == pytest.approx(wilson(0, 6)[1] / (2 * 1.96))
    with pytest.raises(ValueError, match="side 4, but the model solves side 5"):
        solve_rate("wrong", tl.DiffusionModel(knows, tl.Masked(5), predicts=tl.Denoiser), puzzles, SamplerOptions())


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained masked model of side 4."""
    config = tl.nn.TransformerConfig(vocab_size=4, num_states=5, length=16, width=8, depth=1, heads=1)
    folder = tmp_path_factory.mktemp("models") / "untrained"
    tl.DiffusionModel(tl.nn.DiT(config), tl.Masked(4), predicts=tl.Denoiser).save(folder)
    return str(folder)


def test_every_run_meets_the_samplers_and_correctors_that_support_it(masked: str, tmp_path: Path, shell: Shell) -> None:
    samplers = ["--sudoku.samplers", "ancestral", "confidence", "--sudoku.correctors", "none", "informed"]
    options = ["--sudoku.count", "8", "--sudoku.steps", "4", "8", *samplers]
    printed = shell("evaluate", "sudoku4-udm-loo", masked, "--task", "sudoku", "--out", str(tmp_path), *options).out
    assert "sudoku4-udm-loo" in printed
    record = json.loads((tmp_path / "sudoku.json").read_text())
    results = record["results"]
    kernels = {"sudoku4-udm-loo": ("ancestral", "ancestral + informed"), "untrained": ("ancestral", "confidence")}
    assert [(item["run"], item["sampler"], item["steps"]) for item in results] == [
        (run, kernel, steps) for run, known in kernels.items() for kernel in known for steps in (4, 8)
    ]
    assert [origin["model"] for origin in record["provenance"]] == list(kernels)
    assert record["task"]["count"] == 8
    assert all(item["solve_rate"] > 0.5 for item in results[:4])
    assert all(item["solve_rate"] < 0.5 for item in results[4:])
    low, high = GIVENS[4]
    assert {int(number) for number in results[0]["by_givens"]} == set(range(low, high + 1))
    assert results[0]["by_difficulty"] == {"0": [results[0]["solve_rate"], 8]}
    assert (tmp_path / "sudoku.png").read_bytes()[1:4] == b"PNG"


def test_minimal_puzzles_are_reported_by_difficulty(tmp_path: Path, shell: Shell) -> None:
    options = ["--sudoku.minimal", "--sudoku.givens", "8", "10", "--sudoku.count", "12", "--sudoku.steps", "4"]
    printed = shell("evaluate", "sudoku6-udm-loo", "--task", "sudoku", "--out", str(tmp_path), *options).out
    assert "by difficulty: how deep logic must look" in " ".join(printed.split())
    [result] = json.loads((tmp_path / "sudoku.json").read_text())["results"]
    assert set(result["by_givens"]) <= {"8", "9", "10"}
    assert sum(count for _, count in result["by_difficulty"].values()) == 12
    assert len(result["by_difficulty"]) > 1


def test_puzzles_of_the_training_file_are_not_taken_for_new_ones(tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "puzzles.csv"
    path.write_text("quizzes,solutions\n1234341221434320,1234341221434321\n")
    model = tl.load("sudoku4-udm-loo")
    model.describe(source=SudokuSource(side=4, path=str(path)).record())
    model.save(tmp_path / "trained")
    arguments = ["evaluate", str(tmp_path / "trained"), "--task", "sudoku", "--sudoku.puzzles", str(path)]
    with pytest.warns(UserWarning, match="trained was trained on .*puzzles.csv, so its solve rate there is not one of"):
        shell(*arguments, "--sudoku.steps", "2", "--out", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--sudoku.samplers", "reaudm"], "reaudm needs a process with an auxiliary variable"),
        (["--sudoku.samplers", "ancestral", "mudmm"], "there is no sampler 'mudmm'; did you mean mudm"),
        (["--sudoku.count", "0"], "count must be at least 1, got 0"),
        (["--sudoku.steps"], "--sudoku.steps needs at least one value"),
        (["--sudoku.steps", "4", "2", "--sudoku.correctors", "informed"], "at least 3 evaluations, got steps=2"),
        (["--sudoku.count", str(10**15)], "drawing 1,000,000,000,000,000 sequences of 16 tokens needs about"),
        (["--sudoku.minimal", "--sudoku.puzzles", "some.csv"], "generated puzzles, but these come from some.csv"),
        (["--sudoku.minimal", "--sudoku.givens", "12", "13"], "none of 100 grids had such a puzzle of 12 to 13 givens"),
        (["--sudoku.givens", "5", "20"], "givens must be a range within 0..16 for side 4, got 5..20"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_drawn(
    options: list[str], sentence: str, tmp_path: Path, shell: Shell
) -> None:
    assert sentence in shell.refusal(*COMMAND, "--out", str(tmp_path), *options)
    assert not (tmp_path / "sudoku.json").exists()


def test_a_missing_library_is_said_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "this needs the library matplotlib; run pip install" in shell.refusal(*COMMAND, "--out", str(tmp_path))
    assert not (tmp_path / "sudoku.json").exists()
