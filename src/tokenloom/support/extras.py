"""Optional libraries, imported when they are first needed."""

import importlib
from typing import Any


def optional(module: str, extra: str) -> Any:
    """Import a library, or say which extra of the package installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ValueError(f'this needs the library {library}; run pip install "tokenloom[{extra}]"') from error
