"""Models inside the package: one folder each, known by name to every command and to `tokenloom.load`.

A folder on disk goes before a bundled model of the same name.  `NAME@masked` is the model under another process, for a
network that reads the evidence; options follow as in `NAME@hybrid:p_uniform=0.2`.
"""

import os
from pathlib import Path

from tokenloom.support.words import nearest

FOLDER = Path(__file__).parent
ALIASES = {"sudoku-udm-loo": "sudoku@uniform", "sudoku-mdm": "sudoku@masked", "sudoku-audm": "sudoku@absorbing"}
"""Names of earlier versions, and what they mean now."""


def bundled_names() -> list[str]:
    """List the names of the bundled models."""
    return sorted(file.parent.name for file in FOLDER.glob("*/model.safetensors"))


def without_process(name: str | Path) -> tuple[str, str | None]:
    """Split NAME@PROCESS into both; the process is None without an @, or if a file has this name."""
    if os.path.exists(name):
        return str(name), None
    before, sign, process = ALIASES.get(str(name), str(name)).rpartition("@")
    return (before, process) if sign else (process, None)


def locate(name: str | Path) -> Path:
    """Return the folder of a bundled model, or any other path without its @PROCESS."""
    plain = without_process(name)[0]
    return FOLDER / plain if plain in bundled_names() and not os.path.exists(plain) else Path(plain)


def suggestion(name: str | Path) -> str:
    """Return the end of a sentence about a name that leads nowhere: the nearest names, nothing if the path exists."""
    return "" if os.path.exists(name) else f"; no bundled model has this name, {nearest(str(name), bundled_names())}"
