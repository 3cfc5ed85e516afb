"""One way to a model: ours are read, others are imported, and neither is mistaken for the other."""

from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tests.models.interop.ddit_reference import write_checkpoint
from tokenloom.models.opening import is_foreign


@pytest.mark.parametrize("name", ["", "model.safetensors"])
def test_a_folder_of_another_library_or_its_file_of_weights_is_imported_by_load(name: str, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "udlm", "udlm")
    model = tl.load(folder / name)
    assert model.process == tl.Uniform(11)
    assert model.predicts is tl.LeaveOneOut
    samples = tl.sample(model, 2, steps=4, generator=torch.Generator().manual_seed(0))
    assert samples.shape == (2, 9)


def test_a_model_of_ours_is_never_imported(tmp_path: Path) -> None:
    tl.load("sudoku4-udm-loo").save(tmp_path / "own")
    assert not is_foreign(tmp_path / "own")
    assert not is_foreign("sudoku4-udm-loo")
    with pytest.raises(ValueError, match="carries its own tokenizer"):
        tl.load(tmp_path / "own", tokenizer="gpt2")


@pytest.mark.parametrize("name", ["sudoku4-udm", "runs/missing", "/no/such/folder", "no such name", ""])
def test_a_name_that_is_meant_to_be_local_is_not_looked_for_on_the_hub(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    assert not is_foreign(name)


def test_a_pickle_is_refused_with_the_command_that_reads_it(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(2)}, tmp_path / "run.ckpt")
    with pytest.raises(ValueError, match=r"run\.ckpt is a pickle, which is never loaded; run `tokenloom import"):
        tl.load(tmp_path / "run.ckpt")
