"""Files that appear under their name only when they are complete, and JSON that every reader accepts."""

import json
import math
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def replacing(path: Path, remedy: str = "choose another folder with --out") -> Iterator[Path]:
    """A path beside `path` to write a file or a folder to; it takes the place of `path` when it is done.

    After an error what was there before is still there.  `remedy` ends the sentence about a disk that refuses.
    """
    own = secrets.token_hex(4)  # several processes and threads may write the same path at once
    partial, old = (path.with_name(f".{path.stem}-{word}-{own}{path.suffix}") for word in ("writing", "old"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield partial
        if partial.is_dir() and path.exists():
            path.rename(old)
        os.replace(partial, path)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}; {remedy}") from error
    finally:
        if old.exists() and not path.exists():
            old.rename(path)
        for leftover in (partial, old):
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            elif leftover.exists():
                leftover.unlink()


def check_writable(folder: Path) -> None:
    """Say before the work that its results could not be written."""
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror or error}; choose another --out") from error


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path


def write_json(path: Path, record: dict[str, Any]) -> Path:
    """Write a record as JSON."""
    return write_text(path, json_text(record))


def json_text(record: dict[str, Any]) -> str:
    """A record as the text of a JSON file, with null for what is not a number."""
    return json.dumps(_plain(record), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
