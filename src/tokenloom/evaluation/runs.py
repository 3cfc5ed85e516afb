"""A trained model as evaluation sees it: the model, what is known about it, and where its figures go.

A run folder holds model/ (averaged weights), checkpoints/ (averaged and raw ones); figures go to its evaluation/.
A model folder (config.json and model.safetensors) serves as well; its figures go to evaluation/ beside it.  So does the
name of a bundled model, whose figures go to runs/<name>/evaluation.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tokenloom.bundled import is_bundled, locate, way_out
from tokenloom.data.tokenizer import Tokenizer, tokenizer_from_json
from tokenloom.model import DiffusionModel, architecture
from tokenloom.store import load_model
from tokenloom.training.checkpoint import newest_intact, read_checkpoint
from tokenloom.training.config import DataConfig, TrainConfig, from_dict

Weights = Literal["ema", "raw"]


@dataclass(frozen=True)
class Run:
    """A model with its history."""

    name: str
    results: Path
    """Folder for figures."""
    model: DiffusionModel
    weights: Weights
    step: int | None
    tokenizer: Tokenizer | None
    data: DataConfig | None
    """What it was trained on, where that is known."""

    @property
    def length(self) -> int:
        """The longest sequence its network reads."""
        network = architecture(self.model.network)
        assert network is not None  # what was saved is a network of ours
        return network.config.length


def open_run(path: str | Path, weights: Weights = "ema") -> Run:
    """The model of a run folder, of a model folder or of a bundled name, with averaged or raw weights."""
    folder = model_folder(path)
    if folder is None:
        raise ValueError(
            f"{path} is no run: neither it nor its model/ has config.json and model.safetensors{way_out(path)}"
        )
    root = Path("runs") / path if is_bundled(path) else folder.parent
    inside = not is_bundled(path) and (folder != Path(path) or (root / "checkpoints").is_dir())
    name = folder.name if not inside else root.name if folder.name == "model" else f"{root.name}/{folder.name}"
    model, about = load_model(folder), _about(folder)
    step = about.get("step")
    if weights == "raw":
        step = _load_raw(model, root)
    tokenizer, config = about.get("tokenizer"), about.get("config")
    return Run(
        name,
        root / "evaluation",
        model,
        weights,
        step,
        None if tokenizer is None else tokenizer_from_json(json.dumps(tokenizer)),
        None if config is None else from_dict(TrainConfig(), config).data,
    )


def open_runs(paths: Sequence[str], weights: Weights = "ema") -> list[Run]:
    """Some runs, each under a name of its own."""
    if not paths:
        raise ValueError("name at least one run folder")
    runs = [open_run(path, weights) for path in paths]
    names = [run.name for run in runs]
    distinct = [path if names.count(name) > 1 else name for path, name in zip(paths, names, strict=True)]
    if len(set(distinct)) < len(runs):
        raise ValueError(f"a run is named twice: {', '.join(paths)}")
    return [replace(run, name=name) for run, name in zip(runs, distinct, strict=True)]


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


def _about(folder: Path) -> dict[str, Any]:
    about: dict[str, Any] = _config(folder).get("about") or {}
    return about


def _load_raw(model: DiffusionModel, root: Path) -> int:
    newest, _ = newest_intact(root / "checkpoints")
    if newest is None:
        raise ValueError(f"{root} has no intact checkpoint with raw weights; evaluate the averaged ones (ema)")
    saved = read_checkpoint(newest)
    model.load_state_dict(saved.tensors["model"])
    return saved.step
