"""`tokenloom evaluate RUN --task sudoku`: every run with what supports it, by steps and by givens, kept as JSON."""

import json
import sys
from pathlib import Path

import pytest

import tokenloom as tl
from tests.cli.helpers import refusal
from tokenloom.cli import main
from tokenloom.sudoku.data import SudokuSource
from tokenloom.sudoku.evaluate_task import GIVENS

COMMAND = ["evaluate", "sudoku4-udm-loo", "--task", "sudoku"]


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An untrained masked model of side 4."""
    config = tl.nn.TransformerConfig(vocab_size=4, num_states=5, length=16, width=8, depth=1, heads=1)
    folder = tmp_path_factory.mktemp("models") / "untrained"
    tl.DiffusionModel(tl.nn.DiT(config), tl.Masked(4), predicts=tl.Denoiser).save(folder)
    return str(folder)


def test_every_run_meets_the_samplers_and_correctors_that_support_it(
    masked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    samplers = ["--sudoku.samplers", "ancestral", "confidence", "--sudoku.correctors", "none", "informed"]
    options = ["--sudoku.count", "8", "--sudoku.steps", "4", "8", *samplers]
    main(["evaluate", "sudoku4-udm-loo", masked, "--task", "sudoku", "--out", str(tmp_path), *options])
    assert "sudoku4-udm-loo" in capsys.readouterr().out
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


def test_minimal_puzzles_are_reported_by_difficulty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--sudoku.minimal", "--sudoku.givens", "8", "10", "--sudoku.count", "12", "--sudoku.steps", "4"]
    main(["evaluate", "sudoku6-udm-loo", "--task", "sudoku", "--out", str(tmp_path), *options])
    assert "by difficulty: how deep logic must look" in " ".join(capsys.readouterr().out.split())
    [result] = json.loads((tmp_path / "sudoku.json").read_text())["results"]
    assert set(result["by_givens"]) <= {"8", "9", "10"}
    assert sum(count for _, count in result["by_difficulty"].values()) == 12
    assert len(result["by_difficulty"]) > 1


def test_puzzles_of_the_training_file_are_not_taken_for_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "puzzles.csv"
    path.write_text("quizzes,solutions\n1234341221434320,1234341221434321\n")
    model = tl.load("sudoku4-udm-loo")
    model.describe(source=SudokuSource(side=4, path=str(path)).record())
    model.save(tmp_path / "trained")
    arguments = ["evaluate", str(tmp_path / "trained"), "--task", "sudoku", "--sudoku.puzzles", str(path)]
    with pytest.warns(UserWarning, match="trained was trained on .*puzzles.csv, so its solve rate there is not one of"):
        main([*arguments, "--sudoku.steps", "2", "--out", str(tmp_path / "out")])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--sudoku.samplers", "reaudm"],
            "reaudm needs a process with an auxiliary variable, but the model's process is Uniform; use ",
        ),
        (["--sudoku.samplers", "ancestral", "mudmm"], "there is no sampler 'mudmm'; did you mean mudm"),
        (["--sudoku.count", "0"], "--sudoku.count must be at least 1, got 0"),
        (["--sudoku.steps"], "--sudoku.steps needs at least one value"),
        (["--sudoku.count", str(10**15)], "drawing 1,000,000,000,000,000 sequences of 16 tokens needs about"),
        (
            ["--sudoku.minimal", "--sudoku.puzzles", "some.csv"],
            "choose among generated puzzles, but these come from some",
        ),
        (["--sudoku.minimal", "--sudoku.givens", "12", "13"], "none of 100 grids had such a puzzle of 12 to 13 givens"),
        (["--sudoku.givens", "5", "20"], "givens must be a range within 0..16 for side 4, got 5..20"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_is_drawn(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sentence in refusal(capsys, *COMMAND, "--out", str(tmp_path), *options)
    assert not (tmp_path / "sudoku.json").exists()


def test_a_missing_library_is_said_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "this needs the library matplotlib; run pip install" in refusal(capsys, *COMMAND, "--out", str(tmp_path))
    assert not (tmp_path / "sudoku.json").exists()
