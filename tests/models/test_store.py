"""A saved model is the same model, to the last byte, and a broken or foreign one is named in a sentence."""

import itertools
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import tokenloom as tl
from tests.killing import kills
from tests.training.helpers import awake, tiny
from tokenloom.cells import PROCESSES
from tokenloom.couplings import COUPLINGS
from tokenloom.models.seal import seal
from tokenloom.models.store import load_model
from tokenloom.models.tokenizer import Characters
from tokenloom.models.tokenizer_sources import build_tokenizer
from tokenloom.nn.base import NETWORKS, Task
from tokenloom.nn.hugging_face import Pretrained
from tokenloom.noise import NOISES
from tokenloom.posteriors import REPRESENTATIONS
from tokenloom.schedules import SCHEDULES
from tokenloom.sudoku.network import GridNetwork, grid_relations
from tokenloom.support import temporary
from tokenloom.training.build import build_model, resolve
from tokenloom.training.recipes import recipe

FILES = ("config.json", "model.safetensors")
Config = dict[str, Any]
Tensors = dict[str, torch.Tensor]


def small_model(process: tl.Process | None = None, **changes: Any) -> tl.DiffusionModel:
    process = tl.Uniform(3) if process is None else process
    config = tl.nn.TransformerConfig(
        process.vocab_size, process.input_states, 4, width=8, depth=1, heads=1, condition=4,
        absorbing=process.shows_auxiliary, time=not process.sequential,
    )  # fmt: skip
    kind = tl.nn.CausalTransformer if process.sequential else tl.nn.DiT
    return awake(tl.DiffusionModel(kind(config), process, predicts=process.preferred, **changes))


def assert_saved_again_is_the_same(model: tl.DiffusionModel, folder: Path) -> tl.DiffusionModel:
    """Save, load and save again: both files agree byte for byte, and so do config and tensors with the model's own."""
    model.save(folder / "first")
    loaded = tl.load(folder / "first")
    loaded.save(folder / "second")
    for name in FILES:
        assert (folder / "first" / name).read_bytes() == (folder / "second" / name).read_bytes()
    assert loaded.predicts is model.predicts
    assert loaded.process == model.process
    assert loaded.about.to_json() == json.loads(json.dumps(model.about.to_json()))
    for name, value in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], value)
    return loaded


@pytest.mark.parametrize("method", ["udm", "mdm", "audm", "ar"])
def test_a_saved_model_predicts_the_same(method: str, tmp_path: Path) -> None:
    config = tiny(tmp_path, method=method)
    model = awake(build_model(config, config.data.load()))
    loaded = assert_saved_again_is_the_same(model, tmp_path)
    noisy = model.process.corrupt(torch.randint(0, 5, (3, 8)), torch.rand(3), torch.Generator().manual_seed(1))
    first, second = model.predict(noisy), loaded.predict(noisy)
    assert type(first) is type(second)
    assert torch.equal(first.logits, second.logits)  # type: ignore[attr-defined]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


PI = torch.softmax(torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), -1)
NOISE: dict[str, tl.noise.Noise] = {
    "uniform": tl.noise.Uniform(5),
    "mask": tl.noise.Mask(5, mask_id=2),
    "table": tl.noise.Table(5, PI),
    "hybrid": tl.noise.MaskAndUniform(5, 0.25),
}
"""A noise of each kind with options of its own."""


def cells() -> list[tuple[str, str]]:
    """Every noise under every coupling that exists for it."""
    found = []
    for noise, coupling in itertools.product(NOISES, COUPLINGS):
        try:
            tl.Process(NOISE[noise], COUPLINGS[coupling]())
        except ValueError:
            continue
        found.append((noise, coupling))
    return found


@pytest.mark.parametrize(("noise", "coupling"), cells())
def test_every_process_is_saved_whole(noise: str, coupling: str, tmp_path: Path) -> None:
    process = tl.Process(NOISE[noise], COUPLINGS[coupling](), tl.CosineSchedule(eps=0.01))
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


@pytest.mark.parametrize("name", [name for name in NETWORKS if not issubclass(NETWORKS[name], Pretrained)])
def test_every_network_is_saved_whole(name: str, tmp_path: Path) -> None:
    kind = NETWORKS[name]
    process: tl.Process = tl.LeftToRight(4) if getattr(kind, "causal", False) else tl.Uniform(4)
    task = Task(4, 4, 16, given=True, relations=grid_relations(4, 2, 2))
    network = replace(kind.Options(kind=name), width=8, depth=1, heads=1, condition=4).build(task)  # type: ignore[call-arg]
    loaded = assert_saved_again_is_the_same(awake(tl.DiffusionModel(network, process)), tmp_path)
    assert type(loaded.network) is kind


@pytest.mark.parametrize("kind", ["grid", "dit"])
def test_a_grid_network_is_saved_with_its_relations(kind: str, tmp_path: Path) -> None:
    options = replace(NETWORKS[kind].Options(kind=kind), width=8, depth=1, condition=8, relations=True)  # type: ignore[call-arg]
    config = resolve(replace(recipe("sudoku4"), out=str(tmp_path), network=options))
    model = awake(build_model(config, config.data.load()))
    loaded = assert_saved_again_is_the_same(model, tmp_path)
    if isinstance(loaded.network, GridNetwork):
        assert torch.equal(loaded.network.relations, grid_relations(4, 2, 2))
    noisy = model.process.corrupt(torch.randint(0, 4, (2, 16)), torch.rand(2), torch.Generator().manual_seed(1))
    assert torch.equal(model.predict(noisy).logits, loaded.predict(noisy).logits)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe:270"])
def test_a_text_model_keeps_its_tokenizer_and_all_that_is_known_of_it(kind: str, tmp_path: Path) -> None:
    if kind.startswith("bpe"):
        pytest.importorskip("tokenizers")
    tokenizer = build_tokenizer(kind, ["a cab"])
    about = tl.About(
        step=7,
        data="a text",
        source={"kind": "text", "path": "text.txt"},
        validation={"per_token": 1.25, "exact": False},
        origin={"hub": "someone/something"},
        extra={"licence": "MIT", "notes": [1, {"deep": None}]},
    )
    model = small_model(tl.Uniform(tokenizer.vocab_size), tokenizer=tokenizer, about=about)
    loaded = assert_saved_again_is_the_same(model, tmp_path)
    assert loaded.tokenizer is not None
    assert loaded.tokenizer.identity == tokenizer.identity
    assert loaded.decode(torch.tensor([loaded.encode("a cab")])) == ["a cab"]
    stored = json.loads((tmp_path / "first" / "config.json").read_text())["about"]
    assert stored["licence"] == "MIT"


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
    end = model.encode(":")[0]
    assert model.decode(torch.tensor([model.encode("ROMEO: I")]), end=end) == ["ROMEO"]


# ---------------------------------------------------------------- files that are not what they should be


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "model"
    small_model(tl.Masked(3), tokenizer=Characters("abc")).save(folder)
    return folder


def rewritten(stored: Path, folder: Path, edit: Callable[[Config], Any], tensors: Tensors | None = None) -> Path:
    """A copy of a stored model with another config, or other tensors, and checksums that agree."""
    shutil.copytree(stored, folder, dirs_exist_ok=True)
    if tensors is not None:
        save_file(tensors, folder / "model.safetensors")
    config = edit(json.loads((stored / "config.json").read_text()))
    if isinstance(config, dict) and "sha256" in config:
        config = seal(config, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def change(*path: str, to: Any) -> Callable[[Config], Any]:
    """Put a value somewhere into a config."""

    def edit(config: Config) -> Config:
        part = config
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to
        return config

    return edit


def without(key: str) -> Callable[[Config], Config]:
    return lambda config: {name: value for name, value in config.items() if name != key}


WRONG: list[tuple[Callable[[Config], Any], str]] = [
    (without("format"), "has no format number"),
    (change("format", to=True), "has no format number"),
    (change("format", to=4), "its format 4 is newer than 3, the newest that this version reads; upgrade tokenloom"),
    (change("format", to=1), "its format 1 is older than 2"),
    (without("schedule"), "config.json lacks schedule"),
    (without("sha256"), "config.json lacks sha256"),
    (change("network", "depth", to=10**6), "the network dit is much larger than its weights in the file"),
    (change("network", "width", to=10**7), "the network dit is much larger than its weights in the file"),
    (change("network", "vocab_size", to=2**62), "num_states must be 4611686018427387904"),
    (change("tokenizer", "alphabet", to="abcdef"), "the tokenizer has 6 tokens, but the process has 4 states"),
    (change("abuot", to={}), "config.json has an unknown key 'abuot'; did you mean about?"),
    (change("process", "noise", "name", to="msak"), "there is no noise 'msak'; did you mean mask"),
    (change("process", "noise", "mask", to=2), "the noise mask has no option 'mask'; did you mean mask_id?"),
    (change("process", "noise", "vocab_size", to="3"), "vocab_size of the noise mask must be a whole number, got '3'"),
    (change("process", "noise", "vocab_size", to=1), "at least 2 tokens, got 1"),
    (change("process", "coupling", "name", to="markow"), "there is no coupling 'markow'; did you mean markov"),
    (change("process", "coupling", "rate", to=2), "the coupling markov has no option 'rate'"),
    (change("process", "more", to=2), "a process is stored as an object with noise and coupling, got"),
    (change("process", to={"name": "maskd"}), "there is no process 'maskd'; did you mean masked"),
    (change("schedule", "name", to="linaer"), "there is no schedule 'linaer'; did you mean linear"),
    (change("schedule", "epz", to=0.1), "the schedule linear has no option 'epz'; did you mean eps?"),
    (change("schedule", "eps", to=2.0), "eps must be in [0, 1), got 2.0"),
    (change("predicts", to="denoisr"), "there is no representation 'denoisr'; did you mean denoiser?"),
    (change("predicts", to=["loo"]), "there is no representation"),
    (change("network", "name", to="dti"), "there is no network 'dti'; did you mean dit"),
    (change("network", "widht", to=8), "the network dit has no option 'widht'; did you mean width?"),
    (change("network", "width", to=None), "the option width of the network dit must be a whole number, got None"),
    (change("network", "width", to=16), "has shape"),
    (change("tokenizer", "kind", to="chars"), "of kind characters, bytes or subwords, got 'chars'"),
    (change("tokenizer", to=[1]), "a stored tokenizer is of kind"),
    (change("about", "step", to="7"), "the option step of what is known of a model must be a whole number or null"),
    *(
        (change(key, to=value), sentence)
        for key, sentence in {
            "process": "a process is stored as an object with noise and coupling, got",
            "schedule": "a schedule is stored as an object with a name, got",
            "network": "a network is stored as an object with a name, got",
            "about": "what is known of a model is stored as an object, got",
        }.items()
        for value in ([1, 2], "masked", None, 5)
    ),
    (lambda config: [config], "config.json must hold an object"),
    (lambda config: None, "config.json must hold an object"),
]


@pytest.mark.parametrize(("edit", "sentence"), WRONG, ids=[sentence[:60] for _, sentence in WRONG])
def test_a_config_of_another_kind_or_time_gets_a_sentence(
    edit: Callable[[Config], Any], sentence: str, stored: Path, tmp_path: Path
) -> None:
    rewritten(stored, tmp_path, edit)
    with pytest.raises(ValueError, match=f"^the model in {tmp_path} cannot be read: .*{re.escape(sentence)}"):
        load_model(tmp_path)


def test_missing_damaged_and_foreign_weights_get_a_sentence(stored: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no model: config\.json is missing"):
        load_model(tmp_path / "nothing")
    tensors = load_file(stored / "model.safetensors")
    name = next(iter(tensors))
    for changed, sentence in (
        ({key: value for key, value in tensors.items() if key != name}, f"the weights lack {name}"),
        (tensors | {"more": torch.zeros(1)}, "the weights have an unknown more"),
        (tensors | {"process.pi": torch.zeros(1)}, "the noise mask cannot be built"),
        (tensors | {"constant.units": torch.zeros(1)}, "the network dit cannot be built"),
        (tensors | {name: torch.zeros(1, 2, 3)}, r"has shape \[1, 2, 3\]"),
        (tensors | {name: tensors[name].long()}, "holds torch.int64, but the network asks for torch.float32"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_model(rewritten(stored, tmp_path, lambda config: config, changed))


def test_saving_never_takes_what_is_not_a_model(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.tex"
    thesis.write_text("mine")
    for folder, sentence in ((tmp_path, r"holds thesis\.tex, which is not part"), (thesis, "is a file; name a folder")):
        with pytest.raises(ValueError, match=sentence):
            small_model().save(folder)
    assert thesis.read_text() == "mine"
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_flipped_bit_or_a_file_of_another_model_is_found(stored: Path, tmp_path: Path) -> None:
    """A bit in every 200th byte of the weights and every 7th of the config, and the weights of another model."""
    model, config = tmp_path / "model.safetensors", tmp_path / "config.json"
    weights, text = ((stored / name).read_bytes() for name in ("model.safetensors", "config.json"))
    config.write_bytes(text)
    other = small_model(tl.Masked(3), tokenizer=Characters("abc"))
    torch.nn.init.ones_(next(other.parameters()))
    other.save(tmp_path / "other")
    for content in (
        (tmp_path / "other" / "model.safetensors").read_bytes(),
        weights[:-1],
        *(_flipped(weights, place, place % 8) for place in range(0, len(weights), 200)),
    ):
        model.write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.safetensors does not match the checksum in config\.json"):
            load_model(tmp_path)
    model.write_bytes(weights)
    for place in range(0, len(text), 7):
        config.write_bytes(_flipped(text, place, place % 8))
        try:
            loaded = load_model(tmp_path)
        except ValueError:
            continue
        loaded.save(tmp_path / "again")  # the flip was in the white space
        assert (tmp_path / "again" / "config.json").read_bytes() == text


def _flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def test_a_hostile_size_takes_neither_time_nor_memory(stored: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="this system does not say how much memory is used")
    for name, size in (("depth", 10**6), ("depth", 2**62), ("width", 10**5), ("width", 2**62), ("condition", 10**9)):
        rewritten(stored, tmp_path, change("network", name, to=size))
        before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        with pytest.raises(ValueError, match="the network dit is much larger than its weights in the file"):
            load_model(tmp_path)
        assert time.process_time() - begun < 2
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_a_hugging_face_folder_is_named_as_one(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"], "model_type": "bert"}))
    sentence = r"is a Hugging Face model \(BertForMaskedLM\), not a tokenloom one"
    with pytest.raises(ValueError, match=sentence):
        load_model(tmp_path)
    save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=sentence):
        load_model(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_a_file_of_a_model_gets_a_sentence_and_is_not_waited_for(
    name: str, stored: Path, tmp_path: Path
) -> None:
    signal.alarm(20)
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).unlink()
    with pytest.raises(ValueError, match=f"holds no model: {name} is missing"):
        load_model(tmp_path)
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"{name} is a folder, not a file"):
        load_model(tmp_path)
    (tmp_path / name).rmdir()
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match=f"{name} is a pipe, not a file"):
        load_model(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=f"{name} is a device, not a file"):
        load_model(tmp_path)
    with pytest.raises(ValueError, match=r"config\.json is .*, not a model; name the folder that holds it"):
        load_model(tmp_path / "config.json")
    signal.alarm(0)


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b"])
def test_a_name_that_no_disk_can_hold_gets_a_sentence(name: str) -> None:
    with pytest.raises(ValueError, match="holds no model"):
        load_model(name)


def test_a_model_whose_saving_is_killed_loads_as_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL at every line at which names change, without the call that exchanges two of them."""
    monkeypatch.setattr(temporary, "_exchange", lambda first, second: False)
    old, new = small_model(about=tl.About(step=1)), small_model(tl.Masked(3), about=tl.About(step=2))
    folder, steps = tmp_path / "model", set()
    old.save(folder)
    for _ in kills(lambda: new.save(folder), "support/temporary.py", stride=5):
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

    monkeypatch.setattr(temporary, "_exchange", lambda first, second: False)
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


def test_every_schedule_and_representation_is_saved_by_name(tmp_path: Path) -> None:
    for name in SCHEDULES:
        loaded = assert_saved_again_is_the_same(small_model(tl.Uniform(3, schedule=SCHEDULES[name]())), tmp_path / name)
        assert isinstance(loaded.schedule, SCHEDULES[name])
    for name, kind in REPRESENTATIONS.items():
        network = tl.nn.DiT(tl.nn.TransformerConfig(3, 3, 4, width=8, depth=1, heads=1))
        model = tl.DiffusionModel(network, tl.Uniform(3), predicts=kind)
        assert assert_saved_again_is_the_same(model, tmp_path / f"as-{name}").predicts is kind
