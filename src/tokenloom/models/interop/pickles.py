"""Tensors and plain values out of a pickle, and nothing else: the one file that opens one.

PyTorch's restricted reader builds tensors, numbers, strings and containers.  Every other class that a file names (its
config, its tokenizer) is replaced by an empty one that swallows what it is given: no module of the file is imported and
no function of it is called.  A file that asks for a function of the system is refused.
"""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch


class Inert:
    """An object of a class that is not loaded, with its state as plain values."""

    def __new__(cls, *arguments: Any, **options: Any) -> "Inert":
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.state: Any = None
        self.items: list[Any] = []

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append(value)

    def append(self, value: Any) -> None:
        """Keep a value, as a list would."""
        self.items.append(value)

    def extend(self, values: Any) -> None:
        """Keep several values, as a list would."""
        self.items.extend(values)


def read_pickle(path: Path) -> Any:
    """Read a `.bin`, `.pt` or `.ckpt` file of PyTorch; large tensors stay on disk until they are used."""
    serialization: Any = torch.serialization
    try:
        if not zipfile.is_zipfile(path):  # the format of PyTorch before 1.6
            return torch.load(path, map_location="cpu", weights_only=True)
        names = serialization.get_unsafe_globals_in_checkpoint(path)
        with serialization.safe_globals([(_stand_in(name), name) for name in names]):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path} asks for more than tensors and values, so nothing of it was loaded ({_reason(error)})"
        ) from error
    except Exception as error:  # a damaged file fails anywhere in PyTorch
        raise ValueError(f"{path} is not a readable file of PyTorch: {_reason(error)}") from error


def _stand_in(name: str) -> type[Inert]:
    module, _, own = name.rpartition(".")
    return type(own, (Inert,), {"__module__": module})


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    for mark in ("WeightsUnpickler error:", "Trying to load unsupported"):
        text = text[text.find(mark) :] if mark in text else text
    return text.removeprefix("WeightsUnpickler error:").strip()[:160] or type(error).__name__


def plain(value: Any, depth: int = 0) -> Any:
    """Return the stand-ins of an omegaconf config as dictionaries, lists and values; None for anything else."""
    if depth > 50:
        return None
    if isinstance(value, Inert):
        state = value.state if isinstance(value.state, dict) else {}
        return plain(state.get("_content", state.get("_val")), depth + 1)
    if isinstance(value, dict):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    return value if isinstance(value, str | int | float | bool) else None
