"""Models inside the package: one folder each, which every command and `tokenloom.load` know by its name.

A folder on disk goes before a bundled model of the same name.
"""

import os
from pathlib import Path

from tokenloom.support.checks import nearest

FOLDER = Path(__file__).parent


def bundled_names() -> list[str]:
    """The names of the bundled models."""
    return sorted(file.parent.name for file in FOLDER.glob("*/model.safetensors"))


def is_bundled(name: str | Path) -> bool:
    """Whether a name means a bundled model."""
    return not os.path.exists(name) and str(name) in bundled_names()


def locate(name: str | Path) -> Path:
    """The folder of a bundled model; any other path unchanged."""
    return FOLDER / name if is_bundled(name) else Path(name)


def suggestion(name: str | Path) -> str:
    """What to say after a name that leads nowhere: the nearest names; nothing where there is such a folder."""
    if os.path.exists(name):
        return ""
    return f"; no bundled model has this name, {nearest(str(name), bundled_names())}"
