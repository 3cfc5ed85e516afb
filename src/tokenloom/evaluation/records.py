"""Figures on disk: a file appears under its name only when it is complete."""

import json
import math
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def write_whole(path: Path, write: Callable[[Path], object]) -> Path:
    """Let `write` fill a file beside `path` and give it its name when it is done."""
    partial = path.with_name(f".{path.stem}-{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        os.replace(partial, path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}; choose another folder with --out") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return path


def check_writable(folder: Path) -> None:
    """Say before the work that its figures could not be written."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror or error}; choose another --out") from error


def write_json(path: Path, record: dict[str, Any]) -> Path:
    """A record as JSON, with null for what is not a number."""
    text = json.dumps(_plain(record), indent=2, allow_nan=False)
    return write_whole(path, lambda partial: partial.write_text(text + "\n", encoding="utf-8"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
