"""A checkpoint of another library: its files, its config, its tensors and their moving average.

A source is a folder, a file or a name on the Hub, from which only configs, safetensors and tokenizers are fetched,
never code.  A pickle is opened only for the import command.
"""

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from tokenloom.models.bundled import located
from tokenloom.models.interop.ddit import Tensors
from tokenloom.models.interop.pickles import plain, read_pickle
from tokenloom.models.interop.pretrained import SMOLLM2, read_gguf, smollm2
from tokenloom.models.tensors import read_tensors
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.models.tokenizer_sources import HUB_NAME
from tokenloom.support.extras import optional
from tokenloom.support.hub import hub_or_cache
from tokenloom.support.reading import read_json

GGUF = ".gguf"
PICKLES = ("pytorch_model.bin", "*.bin", "*.ckpt", "*.pt", "*.pth")
FETCHED = (
    "config.json", "*.safetensors", "*.safetensors.index.json",
    "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt",
)  # fmt: skip


class Located(NamedTuple):
    """A checkpoint on this machine, named as on the Hub or as its folder or file; its weights may be in parts."""

    name: str
    folder: Path
    weights: tuple[Path, ...]


class Content(NamedTuple):
    """Config and tensors of a checkpoint, and the moving average of the parameters, in their order."""

    located: Located
    config: dict[str, Any]
    tensors: Tensors
    average: list[Tensor] | None = None
    tokenizer: Tokenizer | None = None  # of a file that holds one


def locate_source(source: str | Path, pickles: bool) -> Located:
    """Find the files of a source; those of a Hub name are fetched first."""
    path, name = located(source), str(source)
    if name == SMOLLM2 and not os.path.exists(path):
        path = smollm2()
    if os.path.isdir(path) or os.path.isfile(path):  # Path.is_dir raises for a name that no disk can hold
        name = path.name or name
    elif re.fullmatch(HUB_NAME, name):
        path = _fetch(name, pickles)
    else:
        raise ValueError(f"there is no file or folder {source}, and a name on the Hub looks like owner/name")
    return Located(name, path if path.is_dir() else path.parent, _weights(path, pickles, str(source)))


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


def _weights(path: Path, pickles: bool, source: str) -> tuple[Path, ...]:
    """Return the weights in a folder, safetensors rather than a pickle, or the file itself."""
    if path.is_dir():
        safe = sorted(file for file in path.glob("*.safetensors") if file.is_file())
        if safe:
            return tuple([file for file in safe if file.name == "model.safetensors"] or safe)
        unsafe = [file for pattern in PICKLES for file in sorted(path.glob(pattern)) if file.is_file()]
        if not unsafe:
            raise ValueError(f"{path} holds no weights: neither safetensors nor {', '.join(PICKLES)}")
        path = unsafe[0]
    if path.suffix in (".safetensors", GGUF) or pickles:
        return (path,)
    if not any(path.match(pattern) for pattern in PICKLES):
        raise ValueError(f"{path} is neither safetensors nor one of {', '.join(PICKLES[1:])}")
    raise ValueError(
        f"{path.name} is a pickle, which is never loaded; run `tokenloom import {source} --to FOLDER`, whose reader "
        "builds nothing but tensors and values, and load FOLDER"
    )


def read_content(located: Located) -> Content:
    """Read config, tensors and average of a checkpoint; a config.json beside the weights overrides theirs."""
    first = located.weights[0]
    if first.suffix == GGUF:
        own, weights, words = read_gguf(first)
        return Content(located, own, weights, None, words)
    config = read_json(located.folder / "config.json") if os.path.lexists(located.folder / "config.json") else {}
    if not isinstance(config, dict):
        raise ValueError(f"config.json must hold an object, got {str(config)[:80]}")
    if first.suffix == ".safetensors":
        parts = (read_tensors(path).items() for path in located.weights)
        return Content(located, config, {name: value for part in parts for name, value in part})
    content = inner = read_pickle(first)
    if not isinstance(content, dict):
        raise ValueError(f"{first} holds no dictionary of tensors")
    for key in ("backbone_state_dict", "state_dict", "model"):
        inner = inner[key] if isinstance(inner.get(key), dict) else inner
    tensors = {str(name): value for name, value in inner.items() if isinstance(value, Tensor)}
    if not tensors:
        raise ValueError(f"{first} holds no tensors")
    stored = plain(content.get("hyper_parameters")) or {}  # the config of its run, if Lightning wrote it
    inner = stored.pop("config", None) if isinstance(stored, dict) else None
    config = (stored | inner if isinstance(inner, dict) else {}) | config
    if not isinstance(content.get("ema"), dict):
        return Content(located, config, tensors)
    average = content["ema"].get("shadow_params")
    if not isinstance(average, list) or not all(isinstance(value, Tensor) for value in average):
        raise ValueError("its moving average (ema.shadow_params) is not a list of tensors; import the raw weights")
    return Content(located, config, tensors, average)
