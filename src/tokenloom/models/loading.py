"""Load any model with `tokenloom.load`, one of ours or of another library.

A run, a model folder or a bundled name is read unchanged.  Anything else that holds weights (a folder, a file, a name
on the Hub) is imported, as long as no pickle has to be opened.
"""

import difflib
import os
import re
from pathlib import Path

from tokenloom.models.bundled import bundled_names, is_bundled
from tokenloom.models.interop.importing import import_model
from tokenloom.models.interop.source import PICKLES
from tokenloom.models.model import DiffusionModel
from tokenloom.models.store import foreign, load_model, model_folder
from tokenloom.models.tokenizer_sources import HUB_NAME
from tokenloom.support.typed import checked


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
    return load_model(source)


def is_foreign(source: str | Path) -> bool:
    """Return whether a source has to be imported."""
    path = Path(source)
    if is_bundled(source) or model_folder(source) is not None:
        return False
    if os.path.isdir(path):  # Path.is_dir raises for a name that no disk can hold
        weights = [file for pattern in ("*.safetensors", *PICKLES) for file in path.glob(pattern)]
        return foreign(path) is not None or (bool(weights) and not (path / "config.json").exists())
    if os.path.exists(path):
        return path.is_file()
    local = path.is_absolute() or (path.parent != Path() and os.path.exists(path.parent))
    close = "/" not in str(source) and difflib.get_close_matches(str(source), bundled_names())
    return not local and not close and re.fullmatch(HUB_NAME, str(source)) is not None
