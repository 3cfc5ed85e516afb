"""A checkpoint of another library: its files, its config, its tensors and their moving average.

A source is a folder, a file or a name on the Hub, from which only configs, safetensors and tokenizers are fetched,
never code.  A pickle is opened only for the import command.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tokenloom.models.interop.ddit import EMBEDDING, Tensors
from tokenloom.models.interop.pickles import plain, read_pickle
from tokenloom.models.tensors import read_tensors
from tokenloom.models.tokenizer_sources import HUB_NAME
from tokenloom.support.extras import optional
from tokenloom.support.hub import hub_or_cache
from tokenloom.support.reading import file_sum, read_json

SAFE = ("*.safetensors", "*.safetensors.index.json")
PICKLES = ("pytorch_model.bin", "*.bin", "*.ckpt", "*.pt", "*.pth")
FETCHED = ("config.json", *SAFE, "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt")


@dataclass(frozen=True)
class Located:
    """A checkpoint on this machine."""

    name: str
    """The name on the Hub, the folder or the file."""
    folder: Path
    weights: tuple[Path, ...]
    """One file, or the parts of one."""
    revision: str | None = None

    def origin(self, family: str, weights: str, notes: Iterable[str]) -> dict[str, Any]:
        """Return where a model came from, as `About.origin` records it."""
        sums = [file_sum(path) for path in self.weights]
        return {
            "family": family,
            "source": self.name,
            "revision": self.revision,
            "file": self.weights[0].name,
            "sha256": sums[0] if len(sums) == 1 else hashlib.sha256("".join(sums).encode()).hexdigest(),
            "weights": weights,
            "notes": list(notes),
        }


@dataclass(frozen=True)
class Content:
    """Config and tensors of a checkpoint."""

    config: dict[str, Any]
    tensors: Tensors
    average: list[Tensor] | None = None
    """The moving average of the parameters, in their order."""


def locate_source(source: str | Path, pickles: bool) -> Located:
    """Find the files of a source; those of a Hub name are fetched first."""
    path = Path(source)
    if os.path.isdir(path):
        return Located(path.name or str(path), path, _weights(path, pickles, str(source)))
    if os.path.isfile(path):
        return Located(path.name, path.parent, (_allowed(path, pickles, str(source)),))
    if not re.fullmatch(HUB_NAME, str(source)):
        raise ValueError(f"there is no file or folder {source}, and a name on the Hub looks like owner/name")
    folder = _fetch(str(source), pickles)
    revision = folder.name if folder.parent.name == "snapshots" else None
    return Located(str(source), folder, _weights(folder, pickles, str(source)), revision)


def _fetch(name: str, pickles: bool) -> Path:
    hub = optional("huggingface_hub", "text")
    patterns = [*FETCHED, *(PICKLES[:1] if pickles else ())]
    try:
        with hub_or_cache():
            return Path(hub.snapshot_download(name, allow_patterns=patterns))
    except Exception as error:
        raise ValueError(
            f"{name} is not a run, a model or the name of a bundled one, and it could not be fetched from the Hub "
            f"({type(error).__name__}: {' '.join(str(error).split())[:120]})"
        ) from error


def _weights(folder: Path, pickles: bool, source: str) -> tuple[Path, ...]:
    safe = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    if safe:
        whole = [path for path in safe if path.name == "model.safetensors"]
        return tuple(whole or safe)
    unsafe = [path for pattern in PICKLES for path in sorted(folder.glob(pattern)) if path.is_file()]
    if not unsafe:
        raise ValueError(f"{folder} holds no weights: neither safetensors nor {', '.join(PICKLES)}")
    return (_allowed(unsafe[0], pickles, source),)


def _allowed(path: Path, pickles: bool, source: str) -> Path:
    if path.suffix == ".safetensors" or pickles:
        return path
    if not any(path.match(pattern) for pattern in PICKLES):
        raise ValueError(f"{path} is neither safetensors nor one of {', '.join(PICKLES[1:])}")
    raise ValueError(
        f"{path.name} is a pickle, which is never loaded; run `tokenloom import {source} --to FOLDER`, whose reader "
        "builds nothing but tensors and values, and load FOLDER"
    )


def read_content(located: Located) -> Content:
    """Read config, tensors and average of a checkpoint; a config.json beside the weights overrides theirs."""
    config = read_json(located.folder / "config.json") if os.path.lexists(located.folder / "config.json") else {}
    if not isinstance(config, dict):
        raise ValueError(f"config.json must hold an object, got {str(config)[:80]}")
    first = located.weights[0]
    if first.suffix == ".safetensors":
        return Content(config, {name: value for path in located.weights for name, value in read_tensors(path).items()})
    content = read_pickle(first)
    if not isinstance(content, dict):
        raise ValueError(f"{first} holds no dictionary of tensors")
    inner = next((content[key] for key in ("backbone_state_dict", "state_dict") if key in content), content)
    if not any(name.endswith(EMBEDDING) for name in inner if isinstance(name, str)):
        inner = inner.get("model", inner)
    tensors = {str(name): value for name, value in inner.items() if isinstance(value, Tensor)}
    if not tensors:
        raise ValueError(f"{first} holds no tensors")
    return Content(_stored_config(content) | config, tensors, _stored_average(content))


def _stored_config(content: dict[str, Any]) -> dict[str, Any]:
    """Return the config of the run that a Lightning checkpoint carries."""
    stored = plain(content.get("hyper_parameters")) or {}
    config = stored.pop("config", None) if isinstance(stored, dict) else None
    return {**stored, **config} if isinstance(config, dict) else {}


def _stored_average(content: dict[str, Any]) -> list[Tensor] | None:
    stored = content.get("ema")
    if not isinstance(stored, dict):
        return None
    average = stored.get("shadow_params")
    if not isinstance(average, list) or not all(isinstance(value, Tensor) for value in average):
        raise ValueError("its moving average (ema.shadow_params) is not a list of tensors; import the raw weights")
    return average
