"""Optional libraries of evaluation, imported when they are first needed."""

import importlib
from typing import Any


def evaluation_extra(module: str) -> Any:
    """The library, or a sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ValueError(f'this needs the library {library}; run pip install "tokenloom[evaluate]"') from error
