"""A checkpoint is a directory: safetensors and JSON, checked by its own list of checksums.  No pickle is ever loaded.

It is written under a temporary name and renamed when complete, so that a kill, a crash or a full disk leaves the
earlier ones as they were.  A directory whose list does not match its files is named as damaged and passed over.
"""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load, save
from torch import Tensor

from tokenloom.support.files import replacing

MANIFEST = "manifest.json"
PREFIX = "step_"


@dataclass(frozen=True)
class Checkpoint:
    """Named groups of tensors, and what else must be known to resume."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    """One safetensors file each: model, ema, optimiser."""
    state: dict[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int = 2) -> Path:
    """Write a new checkpoint and drop all but the newest `keep`."""
    final = folder / f"{PREFIX}{checkpoint.step:09d}"
    files = {f"{name}.safetensors": save(tensors) for name, tensors in checkpoint.tensors.items()}
    files["state.json"] = json.dumps({"step": checkpoint.step} | checkpoint.state, indent=2).encode()
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files[MANIFEST] = json.dumps(sums, indent=2).encode()
    with replacing(final, "earlier checkpoints are intact, make room and resume") as partial:
        partial.mkdir()
        for name, content in files.items():
            _write(partial / name, content)
    for old in checkpoints(folder)[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, newest first."""
    return sorted((path for path in folder.glob(f"{PREFIX}*") if path.is_dir()), reverse=True)


def damage(path: Path) -> str | None:
    """What is wrong with a checkpoint, or None."""
    try:
        sums = json.loads((path / MANIFEST).read_text())
        for name, expected in sums.items():
            if hashlib.sha256((path / name).read_bytes()).hexdigest() != expected:
                return f"{name} does not match its checksum"
    except OSError as error:
        return f"{Path(error.filename or path).name} is missing or unreadable"
    except ValueError:
        return f"{MANIFEST} is not JSON"
    return None


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint that is not damaged."""
    problem = damage(path)
    if problem is not None:
        raise ValueError(f"the checkpoint {path} is damaged: {problem}")
    state = json.loads((path / "state.json").read_text())
    tensors = {file.stem: load(file.read_bytes()) for file in sorted(path.glob("*.safetensors"))}
    return Checkpoint(state.pop("step"), tensors, state)


def newest_intact(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that can be trusted, and a sentence for each newer one that cannot."""
    damaged: list[str] = []
    for path in checkpoints(folder):
        problem = damage(path)
        if problem is None:
            return path, damaged
        damaged.append(f"the checkpoint {path.name} is damaged ({problem}) and is passed over")
    return None, damaged
