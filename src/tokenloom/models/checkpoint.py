"""A checkpoint is a directory: safetensors and JSON, checked by its own list of checksums.  No pickle is ever loaded.

It is written under a temporary name and renamed when complete, so that a kill, a crash or a full disk leaves the
earlier ones as they were.  Its list names exactly its files, which have fixed names; a directory that is anything else
is named as damaged and passed over.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from tokenloom.models.tensors import read_tensors
from tokenloom.support.files import discard, json_text, replacing, tidy
from tokenloom.support.reading import file_sum, read_json

MANIFEST, STATE = "manifest.json", "state.json"
TENSORS = {group: f"{group}.safetensors" for group in ("model", "ema", "optimiser")}
FILES = {STATE, *TENSORS.values()}
PREFIX = "step_"
LIMIT = 1 << 20  # bytes of the largest JSON file here


@dataclass(frozen=True)
class Checkpoint:
    """Named groups of tensors, and what else must be known to resume."""

    step: int
    tensors: dict[str, dict[str, Tensor]]  # one safetensors file per group: model, ema, optimiser
    state: dict[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a new checkpoint and keep the one before it; later ones are not this run's to drop."""
    final = folder / f"{PREFIX}{checkpoint.step:09d}"
    files = {name: save(checkpoint.tensors[group]) for group, name in TENSORS.items()}
    files[STATE] = json_text({"step": checkpoint.step} | checkpoint.state).encode()
    files[MANIFEST] = json_text({name: hashlib.sha256(content).hexdigest() for name, content in files.items()}).encode()
    with replacing(final, "earlier checkpoints are intact, make room and resume") as partial:
        partial.mkdir()
        for name, content in files.items():
            (partial / name).write_bytes(content)
    tidy(folder)
    for old in [path for path in checkpoints(folder) if path.name <= final.name][2:]:
        discard(old)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """List the complete checkpoints, newest first."""
    return sorted((path for path in folder.glob(f"{PREFIX}*") if path.is_dir()), reverse=True)


def newest_intact(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """Read the newest checkpoint that can be trusted, with a sentence for each newer one that cannot."""
    tidy(folder)
    damaged: list[str] = []
    for path in checkpoints(folder):
        try:
            return read_checkpoint(path), damaged
        except ValueError as error:
            damaged.append(f"{error}; it is passed over")
    return None, damaged


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint after its files are compared with its manifest, or raise if it is damaged."""
    try:
        _check_files(path)
        state = read_json(path / STATE, LIMIT)
        if not isinstance(state, dict) or path.name != f"{PREFIX}{state.get('step')!r:0>9}":
            raise ValueError(f"{STATE} is not that of the step in the name {path.name}")
        tensors = {group: read_tensors(path / name) for group, name in TENSORS.items()}
    except (ValueError, OSError) as error:
        raise ValueError(f"the checkpoint {path} is damaged: {error}") from error
    return Checkpoint(state.pop("step"), tensors, state)


def _check_files(path: Path) -> None:
    """Raise unless a folder holds exactly the files of a checkpoint, with the checksums of its manifest."""
    for name in sorted(os.listdir(path)):
        if (path / name).is_symlink():
            raise ValueError(f"{name} is a link, not a file")
        if not name.startswith(".") and name not in FILES | {MANIFEST}:
            raise ValueError(f"{name} is not a file of a checkpoint")
    sums = read_json(path / MANIFEST, LIMIT)
    if not isinstance(sums, dict) or sums.keys() != FILES:
        raise ValueError(f"{MANIFEST} must name {', '.join(sorted(FILES))} and nothing else")
    for name in sorted(FILES):
        if file_sum(path / name) != sums[name]:
            raise ValueError(f"{name} does not match its checksum")
