"""A saved model is the same model, and a broken one is named."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import tokenloom as tl
from tests.training.helpers import tiny
from tokenloom.store import load_model, save_model
from tokenloom.training.build import build_data, build_model, resolve
from tokenloom.training.config import recipe


@pytest.mark.parametrize("method", ["udm", "mdm", "audm", "ar"])
def test_a_saved_model_predicts_the_same(method: str, tmp_path: Path) -> None:
    config = tiny(tmp_path, method=method)
    model = build_model(config, build_data(config.data)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    save_model(model, tmp_path / "model", {"note": "test"})
    loaded = load_model(tmp_path / "model")
    noisy = model.process.corrupt(torch.randint(0, 5, (3, 8)), torch.rand(3), torch.Generator().manual_seed(1))
    first, second = model.predict(noisy), loaded.predict(noisy)
    assert type(first) is type(second)
    assert torch.equal(first.logits, second.logits)  # type: ignore[attr-defined]
    assert loaded.process == model.process
    model.save(tmp_path / "model")
    assert torch.equal(first.logits, tl.load(tmp_path / "model").predict(noisy).logits)  # type: ignore[attr-defined]
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    with pytest.raises(ValueError, match=r"holds no model: config\.json is missing"):
        load_model(tmp_path / "nothing")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match="cannot be read"):
        load_model(tmp_path / "model")


def test_a_grid_network_is_saved_with_its_relations(tmp_path: Path) -> None:
    config = resolve(replace(recipe("sudoku4"), out=str(tmp_path)))
    model = build_model(config, build_data(config.data)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    save_model(model, tmp_path / "model")
    noisy = model.process.corrupt(torch.randint(0, 4, (2, 16)), torch.rand(2), torch.Generator().manual_seed(1))
    assert torch.equal(model.predict(noisy).logits, load_model(tmp_path / "model").predict(noisy).logits)  # type: ignore[attr-defined]


def small_model() -> tl.DiffusionModel:
    config = tl.nn.TransformerConfig(vocab_size=3, num_states=3, length=4, width=8, depth=1, heads=1)
    return tl.DiffusionModel(tl.nn.DiT(config), tl.Uniform(3))


def test_saving_never_takes_what_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match=r"work holds thesis\.tex, which is no part of a model; save to a new folder"):
        small_model().save(tmp_path / "work")
    with pytest.raises(ValueError, match=r"thesis\.tex is a file; name a folder"):
        small_model().save(tmp_path / "work" / "thesis.tex")
    assert (tmp_path / "work" / "thesis.tex").read_text() == "mine"
    assert [path.name for path in tmp_path.rglob("*")] == ["work", "thesis.tex"]


def test_whoever_may_read_the_config_may_read_the_weights(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        small_model().save(tmp_path / "model")
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()} == {
        "config.json": 0o644,
        "model.safetensors": 0o644,
    }


def test_a_network_of_ones_own_is_refused_with_a_way_out(tmp_path: Path) -> None:
    model = tl.DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, 3), tl.Uniform(3))
    with pytest.raises(ValueError, match=r"keep its state_dict with safetensors\.torch\.save_file"):
        model.save(tmp_path / "model")
