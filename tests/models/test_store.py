"""A saved model is the same model, to the last byte, and a broken or foreign one is named in a sentence."""

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import tokenloom as tl
from tests.killing import kills
from tests.training.helpers import awake
from tokenloom.cells import PROCESSES
from tokenloom.couplings import COUPLINGS
from tokenloom.models.seals import seal
from tokenloom.models.tensors import read_tensors
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.nn.base import NETWORKS, Task
from tokenloom.nn.hugging_face import Pretrained
from tokenloom.noise import NOISES
from tokenloom.posteriors import REPRESENTATIONS
from tokenloom.schedules import SCHEDULES
from tokenloom.sudoku.network import grid_relations
from tokenloom.support import files

FILES = ("config.json", "model.safetensors")
Config = dict[str, Any]


def small_model(process: tl.Process | None = None, **changes: Any) -> tl.DiffusionModel:
    process = tl.Uniform(3) if process is None else process
    config = tl.nn.TransformerConfig(
        process.vocab_size, process.input_states, 4, width=8, depth=1, heads=1, condition=4,
        absorbing=process.shows_auxiliary, time=not process.sequential,
    )  # fmt: skip
    kind = tl.nn.CausalTransformer if process.sequential else tl.nn.DiT
    return awake(tl.DiffusionModel(kind(config), process, predicts=process.preferred, **changes))


def assert_saved_again_is_the_same(model: tl.DiffusionModel, folder: Path) -> tl.DiffusionModel:
    """Save, load and save again: both files agree byte for byte, and the loaded model is and predicts the same."""
    model.save(folder / "first")
    loaded = tl.load(folder / "first")
    loaded.save(folder / "second")
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]
    for name in FILES:
        assert (folder / "first" / name).read_bytes() == (folder / "second" / name).read_bytes()
    assert loaded.predicts is model.predicts
    assert loaded.process == model.process
    assert type(loaded.network) is type(model.network)
    assert loaded.about.to_json() == json.loads(json.dumps(model.about.to_json()))
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)
    x_0, generator = torch.ones(3, model.length or 1, dtype=torch.int64), torch.Generator().manual_seed(1)
    noisy = model.process.corrupt(x_0, torch.rand(3, generator=generator), generator)
    assert torch.equal(model.logits(noisy), loaded.logits(noisy))
    return loaded


PI = torch.softmax(torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), -1)
NOISE: dict[str, tl.noise.Noise] = {
    "uniform": tl.noise.Uniform(5),
    "mask": tl.noise.Mask(5, mask_id=2),
    "table": tl.noise.Table(5, PI),
    "hybrid": tl.noise.MaskAndUniform(5, 0.25),
}
"""Noises with options of their own; others are saved as they are by default."""


def process_of(noise: str, coupling: str) -> tl.Process:
    part = NOISE[noise] if noise in NOISE else NOISES.parse(noise, vocab_size=5)
    return tl.Process(part, COUPLINGS[coupling](), tl.CosineSchedule(eps=0.01))


def cells() -> list[tuple[str, str]]:
    """Every noise under every coupling that exists for it."""
    found = []
    for noise, coupling in itertools.product(NOISES, COUPLINGS):
        try:
            process_of(noise, coupling)
        except ValueError:
            continue
        found.append((noise, coupling))
    return found


@pytest.mark.parametrize(("noise", "coupling"), cells())
def test_every_process_is_saved_whole(noise: str, coupling: str, tmp_path: Path) -> None:
    process = process_of(noise, coupling)
    loaded = assert_saved_again_is_the_same(small_model(process), tmp_path)
    for before, after in ((process.noise, loaded.process.noise), (process.coupling, loaded.process.coupling)):
        assert type(before) is type(after)
        for item in fields(before):
            was, now = getattr(before, item.name), getattr(after, item.name)
            assert torch.equal(was, now) if isinstance(was, torch.Tensor) else was == now


OPTIONS: dict[str, Config] = {"masked": {"mask_id": 2}, "hybrid": {"p_uniform": 0.25, "mask_id": None}}
"""Options of a process as format 2 stores them, beside the vocabulary."""


@pytest.mark.parametrize("name", list(PROCESSES))
def test_a_model_of_format_2_which_names_its_process_is_read_as_before(name: str, tmp_path: Path) -> None:
    options, tables = OPTIONS.get(name, {}), {"pi": PI} if name == "interpolating" else {}
    build: Callable[..., tl.Process] = PROCESSES[name]
    process = build(5, **tables, **options)
    model = small_model(process)
    model.save(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["format"] == 3
    config |= {"format": 2, "process": {"name": name, "vocab_size": 5, **options}}
    (tmp_path / "config.json").write_text(json.dumps(seal(config, tmp_path / "model.safetensors")))
    loaded = tl.load(tmp_path)
    assert loaded.process == process
    assert all(torch.equal(value, loaded.state_dict()[key]) for key, value in model.state_dict().items())


@pytest.mark.parametrize("relations", [False, True])
@pytest.mark.parametrize("name", [name for name in NETWORKS if not issubclass(NETWORKS[name], Pretrained)])
def test_every_network_is_saved_whole_and_with_its_relations(name: str, relations: bool, tmp_path: Path) -> None:
    kind = NETWORKS[name]
    process: tl.Process = tl.LeftToRight(4) if getattr(kind, "causal", False) else tl.Uniform(4)
    task = Task(4, 4, 16, given=True, relations=grid_relations(4))
    sizes: Config = {"width": 8, "depth": 1, "heads": 1, "condition": 4, "relations": relations}
    own = {item.name for item in fields(kind.Options)}
    network = replace(kind.Options(kind=name), **{key: sizes[key] for key in sizes.keys() & own}).build(task)
    loaded = assert_saved_again_is_the_same(awake(tl.DiffusionModel(network, process)), tmp_path)
    if relations and getattr(kind, "takes_relations", False):
        assert torch.equal(loaded.network.constants()["relations"], grid_relations(4))  # type: ignore[attr-defined]


def test_every_schedule_and_representation_is_saved_by_name(tmp_path: Path) -> None:
    for name in SCHEDULES:
        loaded = assert_saved_again_is_the_same(small_model(tl.Uniform(3, schedule=SCHEDULES[name]())), tmp_path / name)
        assert isinstance(loaded.schedule, SCHEDULES[name])
    for name, kind in REPRESENTATIONS.items():
        network = tl.nn.DiT(tl.nn.TransformerConfig(3, 3, 4, width=8, depth=1, heads=1))
        model = tl.DiffusionModel(network, tl.Uniform(3), predicts=kind)
        assert assert_saved_again_is_the_same(model, tmp_path / f"as-{name}").predicts is kind


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe:270"])
def test_a_text_model_keeps_its_tokenizer_and_all_that_is_known_of_it(kind: str, tmp_path: Path) -> None:
    if kind.startswith("bpe"):
        pytest.importorskip("tokenizers")
    tokenizer, source = build_tokenizer(kind, ["a cab"]), {"kind": "text", "path": "text.txt"}
    extra = {"licence": "MIT", "notes": [1, {"deep": None}]}
    about = tl.About(7, "a text", source, validation={"per_token": 1.25, "exact": False}, extra=extra)
    model = small_model(tl.Uniform(tokenizer.vocab_size), tokenizer=tokenizer, about=about)
    loaded = assert_saved_again_is_the_same(model, tmp_path)
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.identity == tokenizer.identity
    assert loaded.decode(torch.tensor([loaded.encode("a cab")])) == ["a cab"]
    stored = json.loads((tmp_path / "first" / "config.json").read_text())["about"]
    assert stored["licence"] == "MIT"


def test_weights_that_are_numbers_of_half_the_size_are_stored_as_such_and_come_back(tmp_path: Path) -> None:
    model = awake(small_model())
    weights = cast(tl.nn.DiT, model.network).state_dict()
    for weight in weights.values():
        weight.copy_(weight.half())
    assert_saved_again_is_the_same(model, tmp_path / "rounded")
    kept = read_tensors(tmp_path / "rounded" / "first" / "model.safetensors")
    assert {kept[name].dtype for name in weights} == {torch.float16}
    for number in (1e-9, 1e9, 1 + 2**-12, torch.nan):
        next(iter(weights.values())).view(-1)[0] = number
        model.save(tmp_path / "not")
        kept = read_tensors(tmp_path / "not" / "model.safetensors")
        assert all(torch.equal(kept[name], weights[name]) or number != number for name in weights)
        assert {kept[name].dtype for name in weights} == {torch.float32}


def test_what_is_not_a_number_is_stored_as_json_that_every_reader_accepts(tmp_path: Path) -> None:
    small_model(about=tl.About(validation={"standard_error": float("nan")})).save(tmp_path / "model")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    text = (tmp_path / "model" / "config.json").read_text()
    assert json.loads(text, parse_constant=refuse)["about"]["validation"] == {"standard_error": None}


def test_samples_of_the_bundled_text_model_become_text_and_come_back() -> None:
    model = tl.load("shakespeare-udm-loo")
    tokens = tl.sample(model, 2, length=32, steps=2, generator=torch.Generator().manual_seed(1))
    texts = model.decode(tokens)
    assert [len(text) for text in texts] == [32, 32]
    assert [model.encode(text) for text in texts] == tokens.tolist()
    assert model.decode(torch.tensor([model.encode("ROMEO: I love thee.")])) == ["ROMEO: I love thee."]


def test_saving_never_takes_what_is_not_a_model(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("mine")
    for folder, sentence in ((tmp_path, r"holds thesis\.tex, which is not part"), (thesis, "is a file; name a folder")):
        with pytest.raises(ValueError, match=sentence):
            small_model().save(folder)
    assert thesis.read_text() == "mine"
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_model_whose_saving_is_killed_loads_as_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL at every line at which names change, without the call that exchanges two of them."""
    monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    old, new = small_model(about=tl.About(step=1)), small_model(tl.Masked(3), about=tl.About(step=2))
    folder, steps = tmp_path / "model", set()
    old.save(folder)
    for _ in kills(lambda: new.save(folder), "support/files.py", stride=5):
        steps.add(tl.load(folder).about.step)
        old.save(folder)
        assert os.listdir(tmp_path) == ["model"]
    assert steps == {1, 2}


def test_a_save_that_is_interrupted_leaves_the_earlier_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C at the worst moment: the earlier model has been moved aside and the new one is not there yet."""
    small_model().save(tmp_path / "model")
    before, rename = (tmp_path / "model" / "model.safetensors").read_bytes(), os.rename

    def interrupted(source: Path, target: Path) -> None:
        if "partial" in source.name:
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        small_model(tl.Uniform(5)).save(tmp_path / "model")
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_whoever_may_read_the_config_may_read_the_weights(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        small_model().save(tmp_path / "model")
    finally:
        os.umask(before)
    assert [(tmp_path / "model" / name).stat().st_mode & 0o777 for name in FILES] == [0o644, 0o644]


def test_a_network_of_ones_own_is_refused_with_a_remedy(tmp_path: Path) -> None:
    model = tl.DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, 3), tl.Uniform(3))
    with pytest.raises(ValueError, match=r"keep its state_dict with safetensors\.torch\.save_file"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
