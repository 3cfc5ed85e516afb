"""Models inside the package: one folder each, which every command and `tokenloom.load` know by its name.

A folder on disk goes before a bundled model of the same name.  `NAME@masked` is a model under another process, which a
network that reads the evidence serves; options follow as in `NAME@hybrid:p_uniform=0.2`.
"""

import os
from pathlib import Path

from tokenloom.support.checks import nearest

FOLDER = Path(__file__).parent
ALIASES = {
    "sudoku-udm-loo": "sudoku@uniform",
    "sudoku-mdm": "sudoku@masked",
    "sudoku-audm": "sudoku@absorbing",
}
"""Names of earlier versions, and what they mean now."""


def bundled_names() -> list[str]:
    """The names of the bundled models."""
    return sorted(file.parent.name for file in FOLDER.glob("*/model.safetensors"))


def without_process(name: str | Path) -> tuple[str, str | None]:
    """A name and, where one follows after @, the process that its model is used under."""
    if os.path.exists(name):
        return str(name), None
    before, sign, process = ALIASES.get(str(name), str(name)).rpartition("@")
    return (before, process) if sign else (process, None)


def is_bundled(name: str | Path) -> bool:
    """Whether a name means a bundled model."""
    name = without_process(name)[0]
    return not os.path.exists(name) and name in bundled_names()


def locate(name: str | Path) -> Path:
    """The folder of a bundled model; any other path unchanged, except for its process."""
    plain = without_process(name)[0]
    return FOLDER / plain if is_bundled(plain) else Path(plain)


def suggestion(name: str | Path) -> str:
    """What to say after a name that leads nowhere: the nearest names; nothing where there is such a folder."""
    if os.path.exists(name):
        return ""
    return f"; no bundled model has this name, {nearest(str(name), bundled_names())}"
