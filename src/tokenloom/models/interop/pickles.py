"""Tensors and plain values out of a pickle, and nothing else: the one file that opens one.

PyTorch's restricted reader builds tensors, numbers, strings and containers.  Every other class that a file names (its
config, its tokenizer) is replaced by an empty one that swallows what it is given: no module of the file is imported and
no function of it is called.  A file that calls a function of the system is refused, and so is one with compressed
records.
"""

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch


class Inert:
    """An object of a class that is not loaded, with its state as plain values; its arguments and items are dropped."""

    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


def read_pickle(path: Path) -> Any:
    """Read a `.bin`, `.pt` or `.ckpt` file of PyTorch; large tensors stay on disk until they are used."""
    serialization: Any = torch.serialization
    try:
        if not zipfile.is_zipfile(path):  # the format of PyTorch before 1.6
            return torch.load(path, map_location="cpu", weights_only=True)
        _check_records(path)
        names = serialization.get_unsafe_globals_in_checkpoint(path)
        with serialization.safe_globals([(Inert, name) for name in names]):
            return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise ValueError(f"{path} asks for more than tensors and values and is refused ({_reason(error)})") from error
    except Exception as error:  # a damaged file fails anywhere in PyTorch
        raise ValueError(f"{path} is not a readable file of PyTorch: {_reason(error)}") from error


def _check_records(path: Path) -> None:
    """Raise unless the records of a zip file lie in it as they are: a compressed one may unpack to any size."""
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
    for record in records:
        if record.compress_type != zipfile.ZIP_STORED:
            raise ValueError(f"its record {record.filename[:80]!r} is compressed, which PyTorch never writes")
    claimed, size = sum(record.file_size for record in records), path.stat().st_size
    if claimed > size:
        raise ValueError(f"its records claim {claimed:,} bytes, and the file has {size:,}")


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
