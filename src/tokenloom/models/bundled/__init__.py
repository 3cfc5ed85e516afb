"""Models inside the package: one folder each, known by name to every command and to `tokenloom.load`.

A folder on disk goes before a bundled model of the same name.  `NAME@masked` is the model under another process, for a
network that reads the evidence; options follow as in `NAME@hybrid:p_uniform=0.2`.  An address (`support/addresses`)
stands for the copy of what is there.
"""

import os
from pathlib import Path

from tokenloom.support.addresses import fetched, is_address, listing
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
    if is_address(before) and "/" in process:  # a user, as in sftp://me@host/run
        return str(name), None
    return (before, process) if sign else (process, None)


def locate(name: str | Path) -> Path:
    """Return the folder of a bundled model, a copy of what is at an address, or any other path, without its @PROCESS.

    Of a run at an address, that is its model.
    """
    plain = without_process(name)[0]
    if is_address(plain):
        return fetched(f"{plain.rstrip('/')}/model" if "model/config.json" in listing(plain, 2) else plain, 1)
    return FOLDER / plain if plain in bundled_names() and not os.path.exists(plain) else Path(plain)


def located(name: str | Path) -> Path:
    """Return a path unchanged, and for an address the copy of its model."""
    return locate(name) if is_address(name) else Path(name)


def suggestion(name: str | Path) -> str:
    """Return the end of a sentence about a name that leads nowhere: the nearest names, nothing if the path exists."""
    if os.path.exists(name) or is_address(name):
        return ""
    return f"; no bundled model has this name, {nearest(str(name), bundled_names())}"
