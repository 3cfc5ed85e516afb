"""Bundled models: known by name wherever a model is asked for, small, and without a trace of where they were made."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import tokenloom as tl
from tokenloom.models import bundled
from tokenloom.models.bundled import FOLDER, bundled_names
from tokenloom.models.opening import open_run
from tokenloom.models.store import load_model
from tokenloom.training.config import from_record

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", bundled_names())
def test_a_bundled_model_loads_by_name_and_says_what_it_was_trained_on(name: str) -> None:
    run = open_run(name)
    assert run.name == name
    assert run.results == Path("runs") / name / "evaluation"  # never inside the package
    about = run.model.about
    assert None not in (about.source, about.data, about.validation, about.step)
    loaded = tl.load(name).state_dict()
    assert all(torch.equal(value, loaded[key]) for key, value in run.model.state_dict().items())


@pytest.mark.parametrize(
    ("name", "process"),
    [
        ("sudoku", "uniform"),
        ("sudoku-udm-loo", "uniform"),
        ("sudoku4-udm-loo", "uniform"),
        ("sudoku6-udm-loo", "uniform"),
        ("sudoku-mdm", "masked"),
        ("sudoku-audm", "absorbing"),
        ("sudoku@hybrid:p_uniform=0.2", "hybrid"),
        ("shakespeare-udm-loo", "uniform"),
    ],
)
def test_a_bundled_model_is_what_its_name_says(name: str, process: str) -> None:
    model = tl.load(name)
    assert (model.process.name, model.predicts) == (process, tl.LeaveOneOut)
    assert sum(parameter.numel() for parameter in model.parameters()) < 1_500_000


def test_bundled_models_are_small_and_hold_no_paths() -> None:
    sizes = [(FOLDER / name / "model.safetensors").stat().st_size for name in bundled_names()]
    assert max(sizes) <= 8_000_000
    assert sum(sizes) <= 25_000_000
    for name in bundled_names():
        about = json.loads((FOLDER / name / "config.json").read_text())["about"]
        trained = about["training"]
        assert trained["out"] is None
        assert about["source"] == trained["data"]
        assert not any("/" in (trained["data"].get(key) or "") for key in ("path", "valid_path", "tokenizer"))
        assert from_record(trained).recipe


@pytest.mark.parametrize("name", bundled_names())
def test_a_bundled_model_is_stored_as_it_would_be_saved_today(name: str, tmp_path: Path) -> None:
    load_model(name).save(tmp_path / name)
    for file in ("config.json", "model.safetensors"):
        assert (tmp_path / name / file).read_bytes() == (FOLDER / name / file).read_bytes()


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    for read in (tl.load, open_run):
        with pytest.raises(ValueError, match="no bundled model has this name, did you mean sudoku6-udm-loo"):
            read("sudoku6-udm-lo")


def test_a_folder_goes_before_a_bundled_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sudoku", "sudoku-mdm"):
        Path(name).mkdir()
        with pytest.raises(ValueError, match=rf"{name} holds no model: config\.json is missing$"):
            tl.load(name)


def test_only_models_that_are_there_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "begun").mkdir()
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "model.safetensors").touch()
    monkeypatch.setattr(bundled, "FOLDER", tmp_path)
    assert bundled_names() == ["whole"]


def test_bundling_a_run_strips_its_paths_and_refuses_what_is_too_large(tmp_path: Path) -> None:
    package, model = tmp_path / "src" / "tokenloom" / "models" / "bundled", tmp_path / "run" / "model"
    package.mkdir(parents=True)
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "bundle.sh"
    script.write_bytes((ROOT / "scripts" / "bundle.sh").read_bytes())
    loaded = tl.load("sudoku")
    about = loaded.about.to_json()
    about["training"]["out"] = "/somewhere/runs/mine"
    for data in (about["training"]["data"], about["source"]):
        data |= {"path": "/somewhere/text.txt", "tokenizer": "bpe:512"}
    loaded.describe(training=about["training"], source=about["source"]).save(model)

    def bundle() -> "subprocess.CompletedProcess[str]":
        command = ["bash", str(script), str(tmp_path / "run"), "mine"]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = os.environ | {"PATH": path}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert bundle().returncode == 0
    written = (package / "mine" / "config.json").read_text()
    assert "somewhere" not in written
    assert len(re.findall('"path": "text.txt"', written)) == 2
    assert len(re.findall('"tokenizer": "bpe:512"', written)) == 2
    assert isinstance(tl.load(package / "mine"), tl.DiffusionModel)
    small, large = (folder / "model.safetensors" for folder in (package / "mine", model))
    assert small.stat().st_size < 0.6 * large.stat().st_size
    (model / "model.safetensors").write_bytes(bytes(16_000_002))
    assert "the limits are 8,000,000 and 25,000,000" in bundle().stderr
    assert (package / "mine" / "model.safetensors").stat().st_size < 8_000_000
