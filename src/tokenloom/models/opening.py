"""From a name to a model: `tokenloom.load` gives the model, `open_run` also its name and the place of its figures.

A run folder holds model/ (averaged weights), checkpoints/ (averaged and raw ones); figures go to its evaluation/.
A model folder (config.json and model.safetensors) works as well; its figures go to evaluation/ beside it.  So does the
name of a bundled model.  Anything else that holds weights (a folder, a file, a name on the Hub) is imported, as long as
no pickle has to be opened.  Its figures, and those of what is at an address, go to runs/<name>/evaluation.

`RUN@masked` is the run under another process (`models/bundled`).
"""

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from tokenloom import __version__
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.models.bundled import FOLDER, bundled_names, located, suggestion, without_process
from tokenloom.models.checkpoint import newest_intact
from tokenloom.models.interop.importing import import_model
from tokenloom.models.interop.source import PICKLES
from tokenloom.models.model import DiffusionModel
from tokenloom.models.store import foreign, load_model, model_folder, under
from tokenloom.models.tokenizer_sources import HUB_NAME
from tokenloom.models.unseen import warn_untrained
from tokenloom.support.addresses import fetched, is_address
from tokenloom.support.reading import file_sum
from tokenloom.support.typed import checked

Weights = Literal["ema", "raw"]


@checked
def load(source: str | Path, tokenizer: str | Path | None = None) -> DiffusionModel:
    """Load the model of a run, a model folder or a bundled name, or import that of another library.

    Raises:
        ValueError: If there is no such model, it cannot be read, or it carries its own tokenizer and another is given.
    """
    if is_foreign(source):
        return import_model(source, tokenizer=tokenizer).model
    if tokenizer is not None:
        raise ValueError(f"{source} carries its own tokenizer; leave out tokenizer={str(tokenizer)!r}")
    model = load_model(source)
    warn_untrained(model.about)
    return model


def is_foreign(source: str | Path) -> bool:
    """Return whether a source has to be imported."""
    if model_folder(source) is not None:
        return False
    path = located(source)
    if os.path.isdir(path):  # Path.is_dir raises for a name that no disk can hold
        weights = [file for pattern in ("*.safetensors", *PICKLES) for file in path.glob(pattern)]
        return foreign(path) is not None or (bool(weights) and not (path / "config.json").exists())
    if os.path.exists(path):
        return path.is_file()
    local = path.is_absolute() or (path.parent != Path() and os.path.exists(path.parent))
    close = "/" not in str(source) and difflib.get_close_matches(str(source), bundled_names())
    return not local and not close and re.fullmatch(HUB_NAME, str(source)) is not None


@dataclass(frozen=True)
class Run:
    """A model with its name, its folder, and the folder `results` for its figures."""

    name: str
    folder: Path
    results: Path
    model: DiffusionModel
    weights: Weights

    @property
    def length(self) -> int:
        """The longest sequence its network reads."""
        assert self.model.length is not None  # every saved network records it
        return self.model.length

    @cached_property
    def weights_digest(self) -> str:
        """The checksum that tells one model's weights from another's."""
        weights = self.folder / "model.safetensors"
        return file_sum(weights) if weights.is_file() else str((self.model.about.origin or {}).get("sha256"))

    def randomness(self, seeds: Sequence[int]) -> RowGenerators:
        """Return one generator per seed, on the device of the model."""
        return RowGenerators(seeds, self.model.device or torch.device("cpu"))

    def provenance(self) -> dict[str, Any]:
        """Return what a record must say of the model and the software behind it."""
        return {
            "tokenloom": __version__,
            "torch": torch.__version__,
            "model": self.name,
            "weights": self.weights,
            "weights_sha256": self.weights_digest,
            "process": self.model.process.title,
            "predicts": self.model.predicts.__name__,
            "trained_steps": self.model.about.step,
            "grids": self.model.about.grids,
        }


def open_run(path: str | Path, weights: Weights = "ema") -> Run:
    """Open the model of a run folder, of a model folder or of a bundled name, with averaged or raw weights."""
    plain, process = without_process(path)
    if process is not None:
        run = open_run(plain, weights)
        return replace(run, name=f"{run.name}@{process}", model=under(run.model, process))
    folder = model_folder(path)
    if folder is None and is_foreign(path):
        if weights == "raw":
            raise ValueError(f"{path} is of another library and has one set of weights; leave out --weights raw")
        name = Path(path).name
        return Run(name, Path(path), Path("runs") / name / "evaluation", load(path), "ema")
    if folder is None:
        raise ValueError(f"{path} is not a run: it has no config.json with model.safetensors{suggestion(path)}")
    bundled = folder.parent == FOLDER
    root = Path("runs") / folder.name if bundled else folder.parent
    inside = not bundled and (folder != Path(path) or (root / "checkpoints").is_dir())
    name = folder.name if not inside else root.name if folder.name == "model" else f"{root.name}/{folder.name}"
    states = root / "checkpoints"
    if is_address(path):
        inner = path.rstrip("/").removesuffix("/model")
        outer = inner.removesuffix("/best")
        root = Path("runs") / outer.rpartition("/")[2]
        name = root.name + inner.removeprefix(outer)
        states = fetched(f"{outer}/checkpoints") if weights == "raw" else states
    if weights == "raw":
        saved, _ = newest_intact(states)
        if saved is None:
            raise ValueError(f"{root} has no intact checkpoint with raw weights; evaluate the averaged ones (ema)")
        raw = {name.removeprefix("network."): value for name, value in saved.tensors["model"].items()}
        model = load_model(folder, raw).describe(step=saved.step)
    else:
        model = load_model(folder)
    warn_untrained(model.about)
    return Run(name, folder, root / "evaluation", model, weights)


def open_runs(paths: Sequence[str], weights: Weights = "ema") -> list[Run]:
    """Open some runs, each under a name of its own."""
    if not paths:
        raise ValueError("name at least one run folder")
    runs = [open_run(path, weights) for path in paths]
    names = [run.name for run in runs]
    distinct = [path if names.count(name) > 1 else name for path, name in zip(paths, names, strict=True)]
    if len(set(distinct)) < len(runs):
        raise ValueError(f"a run is named twice: {', '.join(paths)}")
    return [replace(run, name=name) for run, name in zip(runs, distinct, strict=True)]


def placed(run: Run, compiled: bool = False) -> Run:
    """Move the run to the GPU of this process (LOCAL_RANK of torchrun) if there is one, and compile it if asked to."""
    if torch.cuda.is_available():
        run.model.to(f"cuda:{int(os.environ.get('LOCAL_RANK', '0')) % torch.cuda.device_count()}")
    if compiled:
        run.model.compile()
    return run


def named(run: str, process: str | None) -> str:
    """Return the name by which `open_run` opens a run under a process, or the run itself for None."""
    return run if process is None else f"{run}@{process}"
