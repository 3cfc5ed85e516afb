"""A model on disk: `model.safetensors` and `config.json`, which says what it is.  No pickle is ever loaded.

The config has a format number and names every part as its registry does: the process, its schedule and options, what
the network predicts, the network and its sizes.  With them go the tokenizer and all that is known `about` the model.
Tensors among the options (the `pi` of `Interpolating`) and the constants of a network lie beside the weights.
"""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tokenloom.models.bundled import locate, suggestion
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import unwrapped
from tokenloom.models.tokenizer import Tokenizer, tokenizer_from_json
from tokenloom.nn.base import NETWORKS, Network
from tokenloom.posteriors import REPRESENTATIONS
from tokenloom.processes.base import PROCESSES, Process
from tokenloom.schedules import SCHEDULES
from tokenloom.support.about import About
from tokenloom.support.checks import nearest
from tokenloom.support.files import json_text, replacing
from tokenloom.support.registry import build

FORMAT = 2
KEYS = ("format", "process", "schedule", "predicts", "network", "tokenizer", "about")
FILES = {"config.json", "model.safetensors"}
PROCESS, CONSTANT = "process.", "constant."
"""Prefixes of tensors that are not weights."""


def save_model(model: DiffusionModel, folder: str | Path, weights: dict[str, Tensor] | None = None) -> None:
    """Write a model whose network is registered; `weights` are its own unless it holds parts of them."""
    network, folder = unwrapped(model.network), Path(folder)
    if not isinstance(network, Network):
        raise ValueError(
            f"only registered networks can be saved, got {type(network).__name__}; register yours with "
            "tokenloom.nn.NETWORKS.register, or keep its state_dict with safetensors.torch.save_file"
        )
    _check_replaceable(folder)
    tensors = {**(network.state_dict() if weights is None else weights)}
    tensors |= {CONSTANT + name: value for name, value in network.constants().items()}
    tensors |= {PROCESS + name: value for name, value in _tensors(model.process).items()}
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    try:
        with replacing(folder, "what was there is unchanged") as partial:
            partial.mkdir()
            save_file(tensors, partial / "model.safetensors")
            (partial / "config.json").write_text(json_text(describe(model)), encoding="utf-8")
            shutil.copymode(partial / "config.json", partial / "model.safetensors")  # which was for the owner alone
    except SafetensorError as error:
        raise ValueError(f"cannot write {folder}: {error}; what was there is unchanged") from error


def _check_replaceable(folder: Path) -> None:
    """Raise unless the folder is new, empty or a model: saving replaces the whole of it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder to save the model in")
    others = sorted({path.name for path in folder.iterdir()} - FILES) if folder.exists() else []
    if others:
        raise ValueError(f"{folder} holds {others[0]}, which is not part of a model; save to a new folder")


def describe(model: DiffusionModel) -> dict[str, Any]:
    """What the model is, as JSON."""
    network, process = unwrapped(model.network), model.process
    names = {kind: name for name, kind in REPRESENTATIONS.items()}
    return {
        "format": FORMAT,
        "process": PROCESSES.record(process, skip=("schedule", *_tensors(process))),
        "schedule": SCHEDULES.record(process.schedule),
        "predicts": names[model.predicts],
        "network": {"name": network.name} | asdict(network.config),
        "tokenizer": None if model.tokenizer is None else json.loads(model.tokenizer.to_json()),
        "about": model.about.to_json(),
    }


def load_model(folder: str | Path) -> DiffusionModel:
    """Read a model back, or a bundled one by its name; says in a sentence what is missing or wrong."""
    given, folder = folder, model_folder(folder) or locate(folder)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        tensors = load_file(folder / "model.safetensors")
    except FileNotFoundError as error:
        missing = Path(str(error.filename or folder)).name
        raise ValueError(f"{folder} holds no model: {missing} is missing{suggestion(given)}") from error
    except (ValueError, SafetensorError) as error:
        raise ValueError(f"the model in {folder} cannot be read: {error}") from error
    try:
        return _built(config, tensors)
    except ValueError as error:
        raise ValueError(f"the model in {folder} cannot be read: {error}") from error


def _built(config: Any, tensors: dict[str, Tensor]) -> DiffusionModel:
    _check_format(config)
    options, constants = (_taken(tensors, prefix) for prefix in (PROCESS, CONSTANT))
    process = PROCESSES.restore(config["process"], schedule=SCHEDULES.restore(config["schedule"]), **options)
    network = _network(config["network"], constants)
    _check_weights(network.state_dict(), tensors)
    network.load_state_dict(tensors)
    predicts = str(config["predicts"])
    if predicts not in REPRESENTATIONS:
        raise ValueError(f"there is no representation {predicts!r}; {nearest(predicts, REPRESENTATIONS)}")
    stored = config["tokenizer"]
    tokenizer: Tokenizer | None = None if stored is None else tokenizer_from_json(json.dumps(stored))
    about = About.from_json(config["about"])
    return DiffusionModel(network.eval(), process, None, REPRESENTATIONS[predicts], tokenizer, about)


def _check_format(config: Any) -> None:
    if not isinstance(config, dict):
        raise ValueError(f"config.json must hold an object, got {str(config)[:80]}")
    number = config.get("format")
    if not isinstance(number, int):
        raise ValueError("config.json has no format number, so it was not written by tokenloom 0.2 or later")
    if number > FORMAT:
        raise ValueError(
            f"its format {number} is newer than {FORMAT}, the newest that this version reads; upgrade tokenloom"
        )
    if number < FORMAT:
        raise ValueError(f"its format {number} is older than {FORMAT}, which this version reads")
    missing = [key for key in KEYS if key not in config]
    if missing:
        raise ValueError(f"config.json lacks {missing[0]}")
    unknown = [key for key in config if key not in KEYS]
    if unknown:
        raise ValueError(f"config.json has an unknown key {unknown[0]!r}; {nearest(unknown[0], KEYS)}")


def _network(record: Any, constants: dict[str, Tensor]) -> Network:
    if not isinstance(record, dict) or not isinstance(record.get("name"), str):
        raise ValueError(f"a network is stored as an object with a name, got {str(record)[:80]}")
    kind = NETWORKS[record["name"]]
    values = {key: value for key, value in record.items() if key != "name"}
    config = build(kind.Config, values, f"the network {record['name']}")
    try:
        return kind(config, **constants)
    except TypeError as error:
        raise ValueError(f"the network {record['name']} cannot be built: {error}") from error


def _check_weights(expected: dict[str, Tensor], found: dict[str, Tensor]) -> None:
    for name in (*expected, *found):
        if name not in found or name not in expected:
            raise ValueError(f"the weights {'lack' if name not in found else 'have an unknown'} {name}")
        shape, asked = list(found[name].shape), list(expected[name].shape)
        if shape != asked:
            raise ValueError(f"the weight {name} has shape {shape}, but the config asks for {asked}")


def _tensors(process: Process) -> dict[str, Tensor]:
    """The options of a process that are tensors."""
    return {name: value for name, value in vars(process).items() if isinstance(value, Tensor)}


def _taken(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors of a prefix, taken out."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors.pop(name) for name in names}


def model_folder(path: str | Path) -> Path | None:
    """The folder of one of our models that a path or the name of a bundled model leads to, or None."""
    root = locate(path)
    for folder in (root / "model", root):
        if (folder / "model.safetensors").is_file() and "process" in _config(folder):
            return folder
    return None


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return config if isinstance(config, dict) else {}
