"""An adapter on disk: its base and itself, merged when it is loaded, and never with another base."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import tokenloom as tl
from tests.training.helpers import saved, tiny
from tokenloom.models.adapter import BASE, Adapter, base_name
from tokenloom.models.seals import SUMS, WEIGHTS, seal, weights_sum
from tokenloom.models.store import save_model
from tokenloom.nn.lora import PARTS, adapt

pytest.importorskip("peft", reason="peft is not installed; make test brings it")


def save_adapter(base: str, folder: Path, seed: int = 0) -> tl.DiffusionModel:
    """Save a random adapter to a model, and return the model with it in place."""
    model: Any = tl.load(base)
    adapt(model.network, 4)
    torch.manual_seed(seed)
    weights = {name: value for name, value in model.network.state_dict().items() if name.endswith(PARTS)}
    for value in weights.values():
        value.normal_(0, 0.2)
    own = next(place for place in (Path(base) / "model", Path(base)) if (place / WEIGHTS).is_file())
    save_model(model.describe(step=3), folder, weights, Adapter(base_name(base, folder), weights_sum(own), 4))
    return model  # type: ignore[no-any-return]


def logits(model: tl.DiffusionModel) -> torch.Tensor:
    x = torch.arange(16).remainder(5).view(2, 8)
    found: torch.Tensor = model.network(x, torch.full((2,), 0.5))
    return found.detach()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, the current one, with a run and an adapter to it."""
    monkeypatch.chdir(tmp_path)
    saved(tiny(Path("base")), Path("base"))
    save_adapter("base", Path("own/model"))
    return tmp_path


def test_an_adapter_is_loaded_as_its_base_with_it_merged(tree: Path) -> None:
    model = tl.load("own")
    torch.testing.assert_close(logits(model), logits(save_adapter("base", tree / "again")), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(logits(model), logits(tl.load("base")), atol=0.1)
    assert model.about.step == 3
    assert set(load_file(tree / "own" / "model" / WEIGHTS)) == {
        f"blocks.0.{name}.{part}"
        for name in ("attention.qkv", "attention.out", "expand", "contract", "modulation.linear")
        for part in PARTS
    }


def test_a_merged_model_is_saved_whole_and_needs_no_base(tree: Path) -> None:
    model = tl.load("own")
    model.save("whole")
    shutil.rmtree("base")
    assert torch.equal(logits(tl.load("whole")), logits(model))
    assert "adapter" not in json.loads(Path("whole/config.json").read_text())


def test_a_model_with_layers_of_peft_in_place_is_saved_merged(tree: Path) -> None:
    model = save_adapter("base", tree / "again")
    beside = logits(model)
    model.save("merged")
    assert torch.equal(logits(model), beside)
    torch.testing.assert_close(logits(tl.load("merged")), beside, atol=1e-5, rtol=1e-5)


def test_an_adapter_to_an_adapter_is_merged_in_turn(tree: Path) -> None:
    twice = save_adapter("own", tree / "second", seed=1)
    torch.testing.assert_close(logits(tl.load("second")), logits(twice), atol=1e-5, rtol=1e-5)


def test_the_base_is_found_from_any_folder_and_after_both_have_moved(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = logits(tl.load("own"))
    (tree / "elsewhere").mkdir()
    monkeypatch.chdir(tree / "elsewhere")
    assert torch.equal(logits(tl.load("../own")), before)
    (tree / "moved").mkdir()
    for part in ("own", "base"):
        os.rename(tree / part, tree / "moved" / part)
    assert torch.equal(logits(tl.load(tree / "moved" / "own")), before)


def test_a_bundled_base_is_named_and_an_absolute_one_stays_absolute(tree: Path) -> None:
    assert base_name("shakespeare-udm-loo", tree / "own" / "model") == "shakespeare-udm-loo"
    assert base_name("sudoku@masked", tree / "own" / "model") == "sudoku"
    assert base_name(str(tree / "base"), tree / "own" / "model") == str(tree / "base")
    assert base_name("base", "s3://bucket/own") == str(tree / "base")
    assert base_name("base", tree / "own" / "model") == "../../base"


def test_a_base_that_is_gone_or_another_is_named(tree: Path) -> None:
    os.rename("base", "away")
    with pytest.raises(
        ValueError, match=r"is an adapter to \.\./\.\./base, and there is no such model; put it back at"
    ):
        tl.load("own")
    saved(tiny(Path("base")), Path("base"), std=0.3)
    with pytest.raises(ValueError, match=r"the weights of .*base.model are not those it was trained on \(sha256"):
        tl.load("own")


def reseal(folder: Path, **changes: Any) -> None:
    """Change the config of a model and seal it again, as an attacker can."""
    config = json.loads((folder / "config.json").read_text())
    config = {key: value for key, value in (config | changes).items() if key != SUMS}
    (folder / "config.json").write_text(json.dumps(seal(config, folder / WEIGHTS)))


def test_a_base_with_the_same_weights_and_another_config_is_refused(tree: Path) -> None:
    network = json.loads(Path("base/model/config.json").read_text())["network"]
    reseal(Path("base/model"), network=network | {"time_scale": 1.0})
    with pytest.raises(ValueError, match="whose network has another config; put that model back"):
        tl.load("own")


def test_a_circle_of_bases_cannot_be_written(tree: Path) -> None:
    """Its file names the base by checksum, so an adapter that claims to be its own base has another one in its file."""
    own = Path("own/model")
    reseal(own, adapter={"base": ".", "sha256": weights_sum(own), "rank": 4})
    with pytest.raises(ValueError, match=r"model\.safetensors is of an adapter to weights"):
        tl.load("own")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rank": 0}, "the rank of an adapter must be at least 1, got 0"),
        ({"rank": 3}, r"has shape \[4, \d+\], the network's \[3, "),
        ({"alpha": 1.0}, "its adapter has no option 'alpha'"),
    ],
)
def test_an_adapter_that_contradicts_itself_is_refused(change: dict[str, Any], sentence: str, tree: Path) -> None:
    own = Path("own/model")
    reseal(own, adapter=json.loads((own / "config.json").read_text())["adapter"] | change)
    with pytest.raises(ValueError, match=sentence):
        tl.load("own")


def test_every_adapter_of_the_network_must_be_there(tree: Path) -> None:
    own = Path("own/model")
    tensors = load_file(own / WEIGHTS)
    tensors.popitem()
    save_file(tensors, own / WEIGHTS, {BASE: weights_sum(Path("base/model"))})
    reseal(own)
    with pytest.raises(ValueError, match=r"the weights lack blocks\.0"):
        tl.load("own")


def test_an_adapter_keeps_a_process_of_its_own(tree: Path) -> None:
    model: Any = tl.load("base")
    adapt(model.network, 4)
    weights = {name: value for name, value in model.network.state_dict().items() if name.endswith(PARTS)}
    other = model.with_process(replace(tl.Uniform(5), schedule=tl.CosineSchedule()))
    save_model(other, "other", weights, Adapter("base", weights_sum(Path("base/model")), 4))
    assert tl.load("other").process == other.process
