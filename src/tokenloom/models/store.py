"""A model on disk: `model.safetensors` and `config.json`, which says what it is.  No pickle is ever loaded.

The config has a format number and names every part as its registry does: noise, coupling and schedule, what
the network predicts, the network and its sizes.  With them go the tokenizer and all that is known `about` the model.
Tensors among the options (the `pi` of a noise) and the constants of a network lie beside the weights.

Both files are sealed by checksums (`seals.py`), which are checked first, then names and shapes, and only then is
anything built.  So a flipped bit, a file of another model and a config that was edited are refused: load the model,
change it with `describe`, and save it again.  A folder may hold what is added to another model (`adapter.py`), which is
loaded first.
"""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from tokenloom.cells import PROCESSES
from tokenloom.couplings import COUPLINGS
from tokenloom.models.adapter import BASE, Adapter, check_base, find_base
from tokenloom.models.bundled import locate, suggestion, without_process
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import unwrapped
from tokenloom.models.seals import CONFIG, SUMS, WEIGHTS, check_seal, seal, stored_config
from tokenloom.models.tensors import Budget, check_tensors, halved, read_tensors
from tokenloom.models.tokenizer_sources import tokenizer_from_json
from tokenloom.models.unseen import alike
from tokenloom.nn.base import NETWORKS, Network
from tokenloom.nn.lora import expected, merge, merged_state
from tokenloom.noise import NOISES
from tokenloom.posteriors import REPRESENTATIONS
from tokenloom.process import Process
from tokenloom.schedules import SCHEDULES, Schedule
from tokenloom.support.about import About
from tokenloom.support.addresses import is_address, listing
from tokenloom.support.files import check_ours, check_parts, json_text, recover, replacing
from tokenloom.support.reading import kind_of, parse_json, read_json
from tokenloom.support.registry import build
from tokenloom.support.uploads import upload
from tokenloom.support.words import nearest

FORMAT, OLDEST = 3, 2
KEYS = ("format", "process", "schedule", "predicts", "network", "tokenizer", "about", SUMS)
ADAPTER = "adapter"  # a key that only a model has which is added to another
PROCESS, CONSTANT = "process.", "constant."  # prefixes of tensors that are not weights


def save_model(
    model: DiffusionModel,
    folder: str | Path,
    weights: dict[str, Tensor] | None = None,
    adapter: Adapter | None = None,
) -> None:
    """Write a model whose network is registered to a folder or an address; layers of peft in it are merged.

    `weights` replace those of a network that holds only parts of them.  With `adapter` they are what it adds to its
    base, and nothing else is written.
    """
    if is_address(folder):
        check_replaceable(folder)
        with TemporaryDirectory() as place:
            save_model(model, f"{place}/model", weights, adapter)
            upload(Path(place) / "model", folder)
        return
    network, process, folder = unwrapped(model.network), model.process, Path(folder)
    if not isinstance(network, Network):
        raise ValueError(
            f"only registered networks can be saved, got {type(network).__name__}; register yours with "
            "tokenloom.nn.NETWORKS.register, or keep its state_dict with safetensors.torch.save_file"
        )
    for registry, part in ((NOISES, process.noise), (COUPLINGS, process.coupling)):
        if registry.name_of(part) is None:
            raise ValueError(f"only a registered {registry.kind} can be saved, got {type(part).__name__}; register it")
    check_replaceable(folder)
    options = {name: value for name, value in vars(process.noise).items() if isinstance(value, Tensor)}
    tensors = halved(merged_state(network) if weights is None else weights)
    if adapter is None:
        tensors |= {CONSTANT + name: value for name, value in network.constants().items()}
    tensors |= {PROCESS + name: value for name, value in options.items()}
    tensors = {name: value.contiguous() for name, value in tensors.items()}
    config = {
        "format": FORMAT,
        "process": {
            "noise": NOISES.record(process.noise, skip=tuple(options)),
            "coupling": COUPLINGS.record(process.coupling),
        },
        "schedule": SCHEDULES.record(process.schedule),
        "predicts": next(name for name, kind in REPRESENTATIONS.items() if kind is model.predicts),
        "network": network_record(network),
        "tokenizer": None if model.tokenizer is None else json.loads(model.tokenizer.to_json()),
        "about": model.about.to_json(),
    } | ({} if adapter is None else {ADAPTER: asdict(adapter)})
    try:
        with replacing(folder, "what was there is unchanged") as partial:
            partial.mkdir()
            save_file(tensors, partial / WEIGHTS, None if adapter is None else {BASE: adapter.sha256})
            sealed = seal(parse_json(json_text(config)), partial / WEIGHTS)  # of the config as it will be read
            (partial / CONFIG).write_text(json_text(sealed), encoding="utf-8")
            shutil.copymode(partial / CONFIG, partial / WEIGHTS)  # safetensors writes for the owner alone
    except SafetensorError as error:
        raise ValueError(f"cannot write {folder}: {error}; what was there is unchanged") from error


def check_replaceable(folder: str | Path) -> None:
    """Raise unless the folder, or the address, is new, empty or a model: saving replaces the whole of it."""
    if is_address(folder):
        check_parts(listing(folder, 1), folder, (CONFIG, WEIGHTS, ".*"), "a model", "save to a new address")
        return
    folder = Path(folder)
    kind = kind_of(folder)
    if kind not in (None, "a folder"):
        raise ValueError(f"{folder} is {kind}; name a folder to save the model in")
    check_ours(folder, (CONFIG, WEIGHTS), "a model", "save to a new folder")


def load_model(folder: str | Path, weights: dict[str, Tensor] | None = None) -> DiffusionModel:
    """Read a model from its folder, its run or its bundled name, or raise a sentence about what is missing or wrong.

    `weights` replace those of the file.  What is added to another model is merged into it.
    """
    name, process = without_process(folder)
    if process is not None:
        return under(load_model(name, weights), process)
    root = locate(folder)
    in_run = kind_of(root / "model") == "a folder" and not os.path.lexists(root / WEIGHTS)
    given, folder = folder, model_folder(root) or (root / "model" if in_run else root)
    if kind_of(folder) not in (None, "a folder"):
        raise ValueError(f"{folder} is {kind_of(folder)}, not a model; name the folder that holds it")
    for name in (CONFIG, WEIGHTS):
        if not os.path.lexists(folder / name):
            raise ValueError(foreign(folder) or f"{folder} holds no model: {name} is missing{suggestion(given)}")
    try:
        config = read_json(folder / CONFIG)
        _check_format(config)
        check_seal(config, folder / WEIGHTS)
        return _built(config, read_tensors(folder / WEIGHTS) | (weights or {}), folder)
    except ValueError as error:
        raise ValueError(foreign(folder) or f"the model in {folder} cannot be read: {error}") from error


def outline(folder: str | Path) -> DiffusionModel | None:
    """Return a model without its network, from its config alone; None where that does not say all of its process."""
    name, process = without_process(folder)
    own = model_folder(name)
    try:
        config = {} if own is None else read_json(own / CONFIG)
        stored = _process_from(config["process"], SCHEDULES.restore(config["schedule"]), {})
        known = DiffusionModel(_absent, stored, None, REPRESENTATIONS[config["predicts"]])
    except (ValueError, KeyError, TypeError):  # not ours, damaged, or with tensors: opening it tells
        return None
    if process is None:
        return known
    return known.with_process(PROCESSES.parse(process, vocab_size=stored.vocab_size, schedule=stored.schedule))


def _absent(tokens: Tensor, time: Tensor) -> Tensor:
    raise ValueError("the outline of a model has no network; load the model")


def under(model: DiffusionModel, process: str) -> DiffusionModel:
    """Return the model under a process that is named with its options; the schedule stays the model's."""
    own = model.process
    other = PROCESSES.parse(process, vocab_size=own.vocab_size, schedule=own.schedule)
    if not model.reads_evidence and not alike(other, own):
        raise ValueError(
            f"this network was trained for {own.name} noise and cannot be used under {other.name}; one that is trained "
            "with --method any works under every process"
        )
    return model.with_process(other)


def foreign(folder: Path) -> str | None:
    """Return a sentence about a folder that another library wrote; None for any other folder."""
    config = stored_config(folder)
    if "process" in config or not {"model_type", "architectures"} & config.keys():
        return None
    named = config.get("architectures")
    kind = named[0] if isinstance(named, list) and named else config.get("model_type")
    return (
        f"{folder} is a Hugging Face model ({str(kind)[:80]}), not a tokenloom one; load it with the library "
        "transformers, or name it as --judge if it is a causal language model"
    )


def _check_format(config: Any) -> None:
    if not isinstance(config, dict):
        raise ValueError(f"config.json must hold an object, got {str(config)[:80]}")
    number = config.get("format")
    if type(number) is not int:
        raise ValueError("config.json has no format number, so it was not written by tokenloom 0.2 or later")
    if number > FORMAT:
        raise ValueError(f"its format {number} is newer than {FORMAT}, the newest known here; upgrade tokenloom")
    if number < OLDEST:
        raise ValueError(f"its format {number} is older than {OLDEST}, the oldest that this version reads")
    for key in (*KEYS, *config):
        if key not in config:
            raise ValueError(f"config.json lacks {key}")
        if key not in (*KEYS, ADAPTER):
            raise ValueError(f"config.json has an unknown key {key!r}; {nearest(key, KEYS)}")


def _built(config: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> DiffusionModel:
    options, constants = (
        {name.removeprefix(prefix): tensors.pop(name) for name in list(tensors) if name.startswith(prefix)}
        for prefix in (PROCESS, CONSTANT)
    )
    process = _process_from(config["process"], SCHEDULES.restore(config["schedule"]), options)
    predicts = config["predicts"]
    if not isinstance(predicts, str) or predicts not in REPRESENTATIONS:
        raise ValueError(f"there is no representation {predicts!r}; {nearest(str(predicts), REPRESENTATIONS)}")
    tokenizer = None if config["tokenizer"] is None else tokenizer_from_json(json.dumps(config["tokenizer"]))
    if tokenizer is not None and tokenizer.vocab_size > process.num_states:
        raise ValueError(f"the tokenizer has {tokenizer.vocab_size} tokens, the process {process.num_states} states")
    about = About.from_json(config["about"])
    if ADAPTER in config:
        network = _adapted(config, tensors, folder)
    else:
        network = _network(config["network"], constants, tensors)
        network.load_state_dict(tensors)
    return DiffusionModel(network.eval(), process, None, REPRESENTATIONS[predicts], tokenizer, about)


def _adapted(config: dict[str, Any], tensors: dict[str, Tensor], folder: Path) -> Network:
    """Return the network of the base with the tensors of an adapter merged into its weights."""
    adapter = build(Adapter, config[ADAPTER], "its adapter")
    check_base(folder / WEIGHTS, adapter)
    network: Any = load_model(find_base(adapter, folder, model_folder)).network
    if parse_json(json_text(network_record(network))) != config["network"]:
        raise ValueError(f"it is an adapter to {adapter.base}, whose network has another config; put that model back")
    check_tensors(expected(network, adapter.rank), tensors)
    merge(network, tensors)
    assert isinstance(network, Network)  # as every network that was saved
    return network


def network_record(network: Network) -> dict[str, Any]:
    """Return the name and the config of a network, as a model stores them."""
    return {"name": network.name} | asdict(network.config)


def _process_from(record: Any, schedule: Schedule, tensors: dict[str, Tensor]) -> Process:
    if isinstance(record, dict) and "name" in record:  # as format 2 stores it
        return PROCESSES.restore(record, schedule=schedule, **tensors)
    if not isinstance(record, dict) or record.keys() != {"noise", "coupling"}:
        raise ValueError(f"a process is stored as an object with noise and coupling, got {str(record)[:80]}")
    return Process(NOISES.restore(record["noise"], **tensors), COUPLINGS.restore(record["coupling"]), schedule)


def _network(record: Any, constants: dict[str, Tensor], weights: dict[str, Tensor]) -> Network:
    if not isinstance(record, dict) or not isinstance(record.get("name"), str):
        raise ValueError(f"a network is stored as an object with a name, got {str(record)[:80]}")
    kind, what = NETWORKS[record["name"]], f"the network {record['name']}"
    config = build(kind.Config, {key: value for key, value in record.items() if key != "name"}, what)
    with Budget(weights, what):
        network = build(lambda: kind(config, **constants), {}, what)
    check_tensors(network.state_dict(), weights)
    return network


def model_folder(path: str | Path) -> Path | None:
    """Find the folder of one of our models from a run, a model folder or a bundled name; None if there is none."""
    root = recover(locate(path))
    for folder in (recover(root / "model"), root):
        if kind_of(folder / WEIGHTS) == "a file" and "process" in stored_config(folder):
            return folder
    return None
