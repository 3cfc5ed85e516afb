"""`tokenloom solve` as its users meet it: the status says whether every grid is right, an error says where it is."""

import gzip
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.cli.helpers import Shell
from tokenloom.models.network import unwrapped
from tokenloom.samplers import Sampler
from tokenloom.sudoku.puzzles import is_valid, unique_puzzles
from tokenloom.sudoku.solve_command import glance_of
from tokenloom.sudoku.solver import BLANK
from tokenloom.sudoku.solving import Solver, obeys, solve_puzzles
from tokenloom.sudoku.text import format_grid, parse_puzzles, puzzles_of_file
from tokenloom.support import display

SOLUTION = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
PUZZLE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
EASY = "".join("." if index % 4 == 1 else digit for index, digit in enumerate(SOLUTION))
SIX = "..5.3..1324....3...31.2.....6..4...."
OPEN = "." * 81
SIDE_4 = ["12343412214343..", "123434122.4.4.2.", "." * 16]
COMMAND = [sys.executable, "-m", "tokenloom", "solve"]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120", "LINES": "40", "TERM": "xterm-256color"}


def test_a_grid_that_is_not_valid_ends_in_status_1(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    """One step draws all cells of an empty grid independently, which is never a Sudoku."""
    monkeypatch.setattr(sys, "stdin", StringIO(f"{EASY}\n\n{OPEN}\n"))
    lines = shell.ends(1, "solve", "-", "--steps", "1", "--tries", "2").out.splitlines()
    assert lines[0].split()[1:3] == ["solved", "1"]
    assert lines[1].split()[1:5] == ["not", "solved", "2", "tries"]
    assert lines[2].startswith("1 of 2 solved (50.0%), 1.50 tries per puzzle")


@pytest.mark.parametrize("puzzle", ["..3.1......4.2..", SIX])
def test_smaller_grids_meet_a_model_of_their_size(puzzle: str, shell: Shell) -> None:
    record = json.loads(shell("solve", puzzle, "--json").out)  # a status other than 0 would raise
    side = {16: 4, 36: 6}[len(puzzle)]
    assert record["model"] == f"sudoku{side}-udm-loo"
    assert bool(is_valid(parse_puzzles([record["puzzles"][0]["grid"]]), side))


@pytest.mark.parametrize(
    ("puzzle", "end"),
    [
        ("1..4..1..3.....1", "has no solution, so nothing was drawn; check its givens"),
        ("." * 16, "there is a solution, so try more --tries, more --steps or another --seed"),
    ],
)
def test_who_asks_the_impossible_is_told(puzzle: str, end: str, shell: Shell) -> None:
    printed = shell.ends(1, "solve", puzzle, "--steps", "1", "--tries", "1").out
    assert " ".join(printed.split()).endswith(end)


@pytest.mark.parametrize("blank", "._0")
def test_every_blank_means_the_same(blank: str) -> None:
    assert torch.equal(parse_puzzles([PUZZLE.replace(".", blank)]), parse_puzzles([PUZZLE]))
    assert format_grid(parse_puzzles([PUZZLE])[0].tolist()) == PUZZLE


@pytest.mark.parametrize("header", ["", "quizzes,solutions\n", "Puzzle,Solution\n", "puzzle\n"])
def test_files_are_read_with_and_without_columns_plain_and_gzipped(header: str, tmp_path: Path) -> None:
    content = (header + (f"{EASY},{SOLUTION}\n" if "," in header else f"{EASY}\n")).encode()
    for written in (content, gzip.compress(content)):
        (tmp_path / "puzzles").write_bytes(written)
        assert torch.equal(puzzles_of_file(tmp_path / "puzzles"), parse_puzzles([EASY]))


def with_symbol(symbol: str, row: int, column: int) -> str:
    index = 9 * (row - 1) + column - 1
    return PUZZLE[:index] + symbol + PUZZLE[index + 1 :]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([PUZZLE[:-1]], "the puzzle has 80 characters; a grid has 16, 36 or 81, with . 0 or _ for a blank"),
        ([with_symbol("x", 2, 3)], "the puzzle has 'x' at row 2, column 3; write 1..9, or . 0 or _ for a blank"),
        ([with_symbol("²", 9, 9)], "the puzzle has '²' at row 9, column 9"),
        ([with_symbol("5", 1, 3)], "5 stands at row 1, column 1 and at row 1, column 3, in the same row"),
        ([with_symbol("8", 9, 1)], "8 stands at row 4, column 1 and at row 9, column 1, in the same column"),
        ([with_symbol("9", 1, 3)], "9 stands at row 1, column 3 and at row 3, column 2, in the same box"),
        (["12........3...4."], "contradicts itself: no digit is left for row 1, column 3"),
        (["puzzles.csv"], "puzzles.csv is neither a file nor a puzzle of 16, 36 or 81 characters"),
        ([PUZZLE, "--model", "sudoku-udm"], "sudoku-udm is not a run"),
        ([PUZZLE, "--model", "sudoku6-udm-lo"], "did you mean sudoku6-udm-loo"),
        ([PUZZLE, "--tries", "0"], "tries must be at least 1, got 0"),
        ([PUZZLE, "--sampler", "ancestrall"], "there is no sampler 'ancestrall'; did you mean ancestral?"),
        ([PUZZLE, "--corrector", "informd"], "there is no corrector 'informd'; did you mean informed?"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(arguments: list[str], sentence: str, shell: Shell) -> None:
    assert sentence in shell.refusal("solve", *arguments)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_puzzle_of_another_size_is_refused_on_any_number_of_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    said = shell.refusal("solve", "1" + 15 * ".", "--model", "sudoku-udm-loo")
    assert "side 4, but the model solves side 9; name one that fits" in said


def test_a_wrong_line_of_many_is_named(tmp_path: Path) -> None:
    path = tmp_path / "many.txt"
    path.write_text(f"{EASY}\n{with_symbol('x', 2, 3)}\n")
    with pytest.raises(ValueError, match=r"puzzle 2 of many\.txt has 'x' at row 2, column 3"):
        puzzles_of_file(path)
    with pytest.raises(ValueError, match="puzzle 2 of here has 16 characters; a grid has 81"):
        parse_puzzles([EASY, "." * 16], "here")
    with pytest.raises(ValueError, match="here holds no puzzle"):
        parse_puzzles([], "here")


def test_retries_go_to_unsolved_puzzles_and_stop_at_the_first_valid_grid(guesser: tl.DiffusionModel) -> None:
    """Givens that leave 16 and 256 ways are met in some tries; an empty grid has 288 of 4^16, and is not."""
    drawn: list[int] = []
    puzzles = parse_puzzles(SIDE_4)

    def note(step: tl.Step) -> None:
        if step.index == step.count:
            assert step.after.given is not None
            drawn.extend(int((row == (puzzles != BLANK)).all(1).nonzero()[0, 0]) for row in step.after.given)

    solver = Solver(Sampler(steps=2), tries=1024, batch=64, seed=3)
    outcomes = solve_puzzles(guesser, puzzles, solver, note)
    assert [outcome.solved for outcome in outcomes] == [True, True, False]
    assert obeys(torch.tensor([outcome.grid for outcome in outcomes[:2]]), puzzles[:2]).all()
    assert drawn.count(2) == outcomes[2].tries == 1024
    for index in (0, 1):
        assert outcomes[index].tries <= drawn.count(index) <= max(2, 2 * (outcomes[index].tries - 1))


def test_what_a_puzzle_meets_does_not_depend_on_the_others(guesser: tl.DiffusionModel) -> None:
    puzzles, solver = parse_puzzles(SIDE_4), Solver(Sampler(steps=2), tries=64, seed=1)
    together = solve_puzzles(guesser, puzzles, replace(solver, batch=7))
    assert together == [solve_puzzles(guesser, puzzle[None], solver)[0] for puzzle in puzzles]
    assert together != solve_puzzles(guesser, puzzles, replace(solver, seed=2))


def test_a_try_ends_as_soon_as_the_most_probable_grid_obeys_the_rules() -> None:
    """Same grids, fewer evaluations; and still nothing depends on the other puzzles."""
    model = tl.load("sudoku4-udm-loo")
    puzzles = unique_puzzles(12, (4, 6), 1, 4).posed
    drawn = solve_puzzles(model, puzzles, Solver(Sampler(steps=16)))
    quick = Solver(Sampler(steps=16), until_valid=True, batch=5)
    stopped = solve_puzzles(model, puzzles, quick)
    assert all(outcome.solved for outcome in (*drawn, *stopped))
    assert [outcome.grid for outcome in stopped] == [outcome.grid for outcome in drawn]
    assert min(outcome.evaluations for outcome in stopped) == 1
    assert min(outcome.evaluations for outcome in drawn) > 5
    assert stopped == [solve_puzzles(model, puzzle[None], quick)[0] for puzzle in puzzles]


def test_a_glance_answers_where_it_is_right_and_costs_the_others_an_evaluation(guesser: tl.DiffusionModel) -> None:
    """A model that says the same grid of every puzzle is right about the first alone."""
    grid = "1234341221434321"
    puzzles = parse_puzzles([grid[:8] + "." * 8, *SIDE_4[1:]])
    known = torch.nn.functional.one_hot(parse_puzzles([grid])[0], 4).float() * 99
    sure = tl.DiffusionModel(lambda tokens, time: known.expand(len(tokens), -1, -1), tl.Masked(4), predicts=tl.Denoiser)
    solver = Solver(Sampler(steps=2), tries=4, seed=3)
    glanced = solve_puzzles(guesser, puzzles[[0, 2]], solver, glance=sure)
    assert format_grid(glanced[0].grid) == grid
    assert (glanced[0].tries, glanced[0].evaluations) == (1, 1)
    assert format_grid(glanced[1].grid) == grid  # of an empty grid any valid one is right
    shifted = parse_puzzles(["2" + "." * 15])
    plain, glanced = (solve_puzzles(guesser, shifted, solver, glance=model) for model in (None, sure))
    assert glanced == [replace(plain[0], evaluations=plain[0].evaluations + 1)]


def test_a_network_with_many_loops_glances_with_a_third_of_them() -> None:
    model = tl.load("sudoku")
    glance = glance_of(model)
    assert glance is not None
    assert [unwrapped(each.network).config.loops for each in (model, glance)] == [12, 4]
    assert glance_of(model.with_loops(5)) is None


@pytest.mark.parametrize(("option", "evaluations"), [("--until-valid", 1), ("--no-until-valid", 2)])
def test_the_sampler_alone_can_be_asked_for(option: str, evaluations: int, shell: Shell) -> None:
    record = json.loads(shell("solve", EASY, "--steps", "2", "--json", option).out)
    solved = {"puzzle": EASY, "grid": SOLUTION, "solved": True, "tries": 1, "evaluations": evaluations}
    solved["solutions"] = 1
    assert (record["solved"], record["evaluations_per_puzzle"], record["puzzles"]) == (1, evaluations, [solved])
    assert record["options"]["until_valid"] is (evaluations == 1)


def test_no_solution_and_several_are_known_without_a_draw(tmp_path: Path, shell: Shell) -> None:
    path = tmp_path / "puzzles.txt"
    path.write_text(f"1..4..1..3.....1\n{'.' * 16}\n3102200002100320\n")
    record = json.loads(shell.ends(1, "solve", str(path), "--json").out)
    assert [puzzle["solutions"] for puzzle in record["puzzles"]] == [0, 2, 1]
    assert [puzzle["evaluations"] > 0 for puzzle in record["puzzles"]] == [False, True, True]
    printed = shell.ends(1, "solve", str(path)).out
    assert [line.split("  ")[-1] for line in printed.splitlines()[:2]] == ["no solution", "several solutions"]
    assert "no solution" in shell.ends(1, "solve", "1..4..1..3.....1", "--tries", "256").out


def test_piped_progress_is_a_line_now_and_then_on_the_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.setattr(display, "OFTEN", 0.01)
    path = tmp_path / "puzzles.txt"
    path.write_text(f"{EASY}\n" * 3)
    printed = shell("solve", str(path), "--steps", "4", "--no-until-valid", "--batch", "1")
    assert "solving 3 puzzles" in printed.err
    assert "2 solved of 2 tried, of 3 puzzles" in printed.err
    assert "3 of 3 solved (100.0%), 1.00 tries per puzzle, 4.00 network evaluations per puzzle" in printed.out
    assert "tried" not in printed.out


def test_on_a_terminal_the_bundled_model_is_watched_while_it_solves_and_the_status_is_0() -> None:
    """A terminal of its own: frames with step and noise level, givens bold, changed cells marked, then the solution."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    parent, child = pty.openpty()
    process = subprocess.Popen([*COMMAND, PUZZLE, "--steps", "16"], stdout=child, stderr=child, env=ENVIRONMENT)
    os.close(child)
    seen = b""
    try:
        while part := os.read(parent, 65536):
            seen += part
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(parent)
    assert process.wait() == 0
    assert b"/16   noise" in seen
    assert b"\x1b[1m5" in seen
    assert b"\x1b[30;43m" in seen
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).split("changed")[-1]
    assert SOLUTION in "".join(symbol for symbol in last if symbol.isdigit())
    assert "solved at try" in last
