"""What is beside the package in a clone of the repository: benchmarks and the evidence."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

CLONE = Path(__file__).parents[3]


def from_clone(module: str) -> ModuleType | None:
    """A module of the clone; None where the package was installed without one."""
    if not (CLONE / module.partition(".")[0] / "__init__.py").is_file():
        return None
    if str(CLONE) not in sys.path:
        sys.path.insert(0, str(CLONE))
    return import_module(module)
