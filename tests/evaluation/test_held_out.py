"""A run's held-out data is what has its fingerprint, not what has its name; wrong data is refused before it is made."""

from pathlib import Path

import pytest

from tests.training.helpers import saved, tiny
from tokenloom.data.base import SOURCES
from tokenloom.data.text import TextSource
from tokenloom.evaluation.held_out import held_out
from tokenloom.models.opening import Run, open_run

TEXT = "the loom weaves the warp and the weft , and the weaver sings .\n" * 40
BUNDLED = "shakespeare-udm-loo"


@pytest.fixture(autouse=True)
def quiet_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run on input.txt of this folder."""
    Path("input.txt").write_text(TEXT)
    data = TextSource(path="input.txt", length=16)
    saved(tiny(tmp_path / "run", data=data, method="udm", predicts=None, objective=None), tmp_path / "run")
    return open_run(tmp_path / "run")


def test_a_stray_file_of_the_same_name_is_not_what_was_held_out(run: Run) -> None:
    own = held_out(run)
    assert held_out(run, "input.txt").fingerprint == own.fingerprint  # of its training text never more
    assert own.fingerprint.tokens < len(TEXT) / 10
    Path("input.txt").write_text(TEXT[::-1])
    with pytest.raises(ValueError, match=r"input\.txt here is not the data that run was trained on .* with --data"):
        held_out(run)
    whole = held_out(run, "input.txt")
    assert whole.fingerprint.tokens > 0.95 * len(TEXT)


def test_a_bundled_model_brings_a_slice_of_what_it_held_out() -> None:
    run = open_run(BUNDLED)
    piece = held_out(run)
    assert piece.data.name == "input.txt, bundled slice"
    assert run.model.about.validation is not None
    assert piece.fingerprint.sequences == run.model.about.validation["sequences"]
    Path("input.txt").write_text(TEXT)
    assert held_out(run).fingerprint == piece.fingerprint


def test_data_that_a_model_cannot_read_is_refused_before_it_is_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(source: object) -> None:
        raise AssertionError("it was generated")

    monkeypatch.setattr(SOURCES["sudoku"], "load", load)
    monkeypatch.setattr(SOURCES["markov"], "load", load)
    with pytest.raises(ValueError, match="sudoku-9x9 has 9 tokens, but shakespeare-udm-loo was trained on 65"):
        held_out(open_run(BUNDLED), "sudoku")
    with pytest.raises(ValueError, match="has 16 tokens, but sudoku4-udm-loo was trained on 4"):
        held_out(open_run("sudoku4-udm-loo"), "markov")


def test_generated_data_of_a_bundled_model_is_what_it_was_trained_on() -> None:
    assert held_out(open_run("sudoku4-udm-loo")).data.name == "sudoku-4x4"
