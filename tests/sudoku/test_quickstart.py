import re
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.cli.helpers import Shell
from tokenloom.sudoku.quickstart import clear, config_of, train_one, unseen_puzzles
from tokenloom.sudoku.quickstart_report import axis_to, smooth, strip
from tokenloom.training.reporting import Reporter

MODULE = import_module("tokenloom.sudoku.quickstart")  # its name in the package is the command's
SHORT = ["quickstart", "--minutes", "0.005", "--puzzles", "4"]


@pytest.fixture
def steps(guesser: tl.DiffusionModel, generator: torch.Generator) -> list[tl.Step]:
    """From masks to random digits, with one cell given; seven of them, so that every state has its picture."""
    given = (torch.zeros(16, dtype=torch.long), torch.arange(16) == 3)
    return list(tl.Sampler(steps=7).steps(guesser, 1, length=16, given=given, generator=generator))


def test_quickstart_leaves_a_table_a_report_and_two_models_and_starts_afresh_beside_other_files(
    steps: list[tl.Step], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MODULE, "STEPS", (3, 4))
    printed = shell(*SHORT).out
    assert "solved at try" in printed
    assert "quickstart/report.html" in printed
    assert re.search(r"Trained: UDM \d+ steps of 253,300 parameters, MDM \d+ steps", printed)
    page = Path("quickstart/report.html").read_text()
    cells = re.findall(r"(\d+\.\d)% ± (\d+\.\d)%", printed)
    assert len(cells) == 6  # three ways, two numbers of steps
    assert re.findall(r"<td>(\d+\.\d)% <small>± (\d+\.\d)%", page) == cells
    assert page.count('class="grid"') == 8 + 2 * 8
    assert not re.search(r"<script|src=|href=|https?://|\$\w", page)  # self-contained, and nothing left to fill in
    assert tl.load("quickstart/udm/model").process.name == "uniform"
    assert tl.load("quickstart/mdm/model").process.name == "masked"

    mine = [Path("quickstart/notes.txt"), Path("quickstart/udm/notes.txt")]
    for path in mine:
        path.write_text("mine")
    Path("quickstart/udm/metrics.jsonl").write_text("an earlier run\n")
    monkeypatch.setattr(MODULE, "solve_live", lambda console, seed: steps)
    shell(*SHORT)
    assert all(path.read_text() == "mine" for path in mine)
    assert "an earlier run" not in Path("quickstart/udm/metrics.jsonl").read_text()


def test_a_folder_that_is_not_an_earlier_quickstart_is_left_alone(tmp_path: Path) -> None:
    config = config_of("udm", 1, 0, tmp_path / "udm")
    (tmp_path / "udm" / "model").mkdir(parents=True)
    with pytest.raises(ValueError, match="udm is in the way and does not hold a run of an earlier quickstart"):
        clear(tmp_path / "udm", config)
    assert (tmp_path / "udm" / "model").exists()


def test_puzzles_are_of_grids_that_training_never_saw() -> None:
    config = config_of("udm", 1, 0, Path("x"))
    data, puzzles = config.data.load(), unseen_puzzles(config, 40, seed=0)
    assert set(puzzles.given.sum(1).tolist()) == {4, 5, 6, 7}
    assert torch.equal(puzzles.solutions, data.valid[torch.arange(40) % len(data.valid)])
    assert not (puzzles.solutions[:, None] == data.train).all(-1).any()


def test_an_interrupted_training_ends_everything_and_gives_the_signals_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, step = signal.getsignal(signal.SIGINT), Reporter.step

    def interrupted(*details: Any) -> None:
        step(*details)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Reporter, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_one(config_of("udm", 1, 0, tmp_path / "udm"))
    assert signal.getsignal(signal.SIGINT) is before


def test_exactly_the_cells_that_changed_between_pictures_are_coloured(steps: list[tl.Step]) -> None:
    pictures = strip([*steps[:3], *steps]).split("<figure>")[1:]  # of the newest run alone
    expected = [(0, 1), *((int(step.changed.sum()), int((step.tokens < 4).sum())) for step in steps)]
    for picture, (changes, digits) in zip(pictures, expected, strict=True):
        assert picture.count('rect class="changed"') == changes
        assert picture.count('rect class="given"') == 1
        assert picture.count("<text") == digits  # a mask has none


@pytest.mark.parametrize("high", [0.003, 0.07, 0.9, 1.0, 3.2, 47.0, 299.0, 12345.0])
def test_ticks_are_few_and_within_the_range(high: float) -> None:
    ticks = [value for value, _ in axis_to(high)[2]]
    assert 2 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert 0.5 * high < ticks[-1] <= high * (1 + 1e-9)


def test_smoothing_keeps_a_constant() -> None:
    found = smooth([(1, 2.0), (2, 2.0), (3, 2.0)])
    assert [step for step, _ in found] == [1, 2, 3]
    assert [value for _, value in found] == pytest.approx([2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--minutes", "0"), "minutes must be positive and puzzles in 1..100,000, got 0 and 300"),
        (("--puzzles", "-3"), "minutes must be positive and puzzles in 1..100,000, got 1 and -3"),
        (("--out", "/dev/null/here", "--minutes", "0.01"), "cannot write to /dev/null/here: "),
    ],
)
def test_a_wrong_option_ends_in_one_sentence_before_anything_runs(
    options: tuple[str, ...], sentence: str, shell: Shell
) -> None:
    assert sentence in shell.refusal("quickstart", *options)
