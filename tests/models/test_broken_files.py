"""The files of a model that are damaged, hostile or of another library: a sentence each, in little time and memory."""

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import tokenloom as tl
from tests.models.test_store import FILES, Config, small_model
from tokenloom.models.seals import seal
from tokenloom.models.store import load_model
from tokenloom.models.tokenizer import Characters

Tensors = dict[str, torch.Tensor]


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
    (change("format", to=4), "its format 4 is newer than 3, the newest known here; upgrade tokenloom"),
    (change("format", to=1), "its format 1 is older than 2"),
    (without("schedule"), "config.json lacks schedule"),
    (without("sha256"), "config.json lacks sha256"),
    (change("network", "vocab_size", to=2**62), "num_states must be 4611686018427387904"),
    (change("network", "loops", to=10**18), "loops must be at most 1000, got 1000000000000000000"),
    (change("tokenizer", "alphabet", to="abcdef"), "the tokenizer has 6 tokens, the process 4 states"),
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
def test_a_config_of_another_kind_gets_a_sentence(
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


SIZES = [("depth", 10**6), ("depth", 2**62), ("width", 10**5), ("width", 10**7), ("width", 2**62), ("condition", 10**9)]


def test_a_hostile_size_takes_neither_time_nor_memory(stored: Path, tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="this system does not say how much memory is used")
    for name, size in SIZES:
        rewritten(stored, tmp_path, change("network", name, to=size))
        before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        with pytest.raises(ValueError, match="the network dit is much larger than its weights in the file"):
            load_model(tmp_path)
        assert time.process_time() - begun < 2
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


@pytest.mark.parametrize("weights", [False, True])
def test_a_hugging_face_folder_is_named_as_one(weights: bool, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"], "model_type": "bert"}))
    if weights:
        save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"is a Hugging Face model \(BertForMaskedLM\), not a tokenloom one"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_what_is_not_a_file_of_a_model_gets_a_sentence_and_is_not_waited_for(
    name: str, stored: Path, tmp_path: Path
) -> None:
    signal.alarm(20)
    kinds: dict[str, Callable[[Path], object]] = {
        "holds no model: {} is missing": lambda path: None,
        "{} is a folder, not a file": Path.mkdir,
        "{} is a pipe, not a file": os.mkfifo,
        "{} is a device, not a file": lambda path: path.symlink_to("/dev/zero"),
    }
    for number, (sentence, make) in enumerate(kinds.items()):
        folder = shutil.copytree(stored, tmp_path / str(number))
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(ValueError, match=sentence.format(name)):
            load_model(folder)
    with pytest.raises(ValueError, match=r"config\.json is .*, not a model; name the folder that holds it"):
        load_model(folder / "config.json")
    signal.alarm(0)


@pytest.mark.parametrize("name", ["a" * 5000, "a\0b"])
def test_a_name_that_no_disk_can_hold_gets_a_sentence(name: str) -> None:
    with pytest.raises(ValueError, match="holds no model"):
        load_model(name)
