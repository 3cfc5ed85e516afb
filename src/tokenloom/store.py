"""A model on disk: `model.safetensors` and `config.json`, which says what it is.  No pickle is ever loaded.

The config names the process, its schedule and mask, what the network predicts, the network's sizes and the vocabulary;
`about` carries what else is known (the data's fingerprint, the validation figure, a tokenizer).
"""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tokenloom import nn, posteriors, processes, schedules
from tokenloom.bundled import locate, way_out
from tokenloom.model import DiffusionModel, architecture
from tokenloom.nn import DiT, GridNetwork, Transformer, TransformerConfig

RELATIONS = "relations"
FILES = {"config.json", "model.safetensors"}
NETWORKS: dict[str, type[Transformer]] = {
    kind.__name__: kind for kind in (nn.DiT, nn.CausalTransformer, nn.HollowTransformer, nn.GridNetwork)
}


def save_model(
    model: DiffusionModel,
    folder: str | Path,
    about: dict[str, Any] | None = None,
    weights: dict[str, Tensor] | None = None,
) -> None:
    """Write a model whose network is one of `tokenloom.nn`; `weights` are its own unless it holds parts of them."""
    network, folder = architecture(model.network), Path(folder)
    if network is None:
        raise ValueError(
            f"only networks of tokenloom.nn can be saved, got {type(model.network).__name__}; a network of your own "
            "is rebuilt by your code: keep its state_dict with safetensors.torch.save_file"
        )
    _check_replaceable(folder)
    own = network.state_dict() if weights is None else weights
    tensors = {name: value.contiguous() for name, value in own.items()}
    relations = _relations(network)
    if relations is not None:
        tensors[RELATIONS] = relations
    partial, old = (folder.with_name(f".{folder.name}-{word}-{os.getpid()}") for word in ("writing", "old"))
    partial.mkdir(parents=True, exist_ok=True)
    try:
        save_file(tensors, partial / "model.safetensors")
        (partial / "config.json").write_text(json.dumps(describe(model) | {"about": about or {}}, indent=2))
        shutil.copymode(partial / "config.json", partial / "model.safetensors")  # which was for the owner alone
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    except (OSError, SafetensorError) as error:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise ValueError(f"could not write the model to {folder}: {error}; what was there is as it was") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _check_replaceable(folder: Path) -> None:
    """Raise unless the folder is new, empty or a model: saving replaces the whole of it."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; name a folder to save the model in")
    others = sorted({path.name for path in folder.iterdir()} - FILES) if folder.exists() else []
    if others:
        raise ValueError(f"{folder} holds {others[0]}, which is no part of a model; save to a new folder")


def describe(model: DiffusionModel) -> dict[str, Any]:
    """What the model is, as JSON."""
    network, process = architecture(model.network), model.process
    assert network is not None
    return {
        "process": {
            "name": type(process).__name__,
            "vocab_size": process.vocab_size,
            "mask_id": getattr(process, "mask_id", None),
        },
        "schedule": {"name": type(process.schedule).__name__} | asdict(process.schedule),  # type: ignore[call-overload]
        "predicts": model.predicts.__name__,
        "network": {"name": type(network).__name__} | asdict(network.config),
    }


def load_model(folder: str | Path) -> DiffusionModel:
    """Read a model back, or a bundled one by its name; says in a sentence what is missing or wrong."""
    given, folder = folder, locate(folder)
    try:
        config = json.loads((folder / "config.json").read_text())
        tensors = load_file(folder / "model.safetensors")
    except FileNotFoundError as error:
        missing = Path(str(error.filename or folder)).name
        raise ValueError(f"{folder} holds no model: {missing} is missing{way_out(given)}") from error
    except (ValueError, SafetensorError) as error:
        raise ValueError(f"the model in {folder} cannot be read: {error}") from error
    process, network, schedule = (dict(config[key]) for key in ("process", "network", "schedule"))
    kind = NETWORKS[network.pop("name")]
    size = TransformerConfig(**network)
    relations = tensors.pop(RELATIONS, None)
    built = kind(size) if relations is None else kind(size, relations)  # type: ignore[call-arg]
    built.load_state_dict(tensors)
    made = getattr(processes, process["name"])
    options = {} if process["mask_id"] is None else {"mask_id": process["mask_id"]}
    return DiffusionModel(
        built.eval(),
        made(process["vocab_size"], schedule=getattr(schedules, schedule.pop("name"))(**schedule), **options),
        predicts=getattr(posteriors, config["predicts"]),
    )


def _relations(network: Transformer) -> Tensor | None:
    if not isinstance(network, DiT | GridNetwork):
        return None
    found = [buffer for name, buffer in network.named_buffers() if name.endswith(RELATIONS)]
    return found[0].to(torch.bool) if found else None
