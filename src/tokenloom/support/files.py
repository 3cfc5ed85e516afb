"""Files that appear under their name only when they are complete, and JSON that every reader accepts.

A writer fills a temporary beside the name, waits until it is on the disk, and gives it the name in one step.  So a
kill or a full disk at any instant leaves the old or the new content, whole.
"""

import json
import math
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tokenloom.support.reading import kind_of
from tokenloom.support.temporary import put, temporary, tidy


@contextmanager
def replacing(path: Path, remedy: str = "choose another folder with --out") -> Iterator[Path]:
    """Give a path to write a file or a folder to, which replaces `path` when the block ends without an error.

    `remedy` ends the sentence about a disk that refuses.
    """
    path = Path(os.path.realpath(path))  # a link stays a link, to the new content
    check_target(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tidy(path.parent, path.name)
        with temporary(path) as partial:
            yield partial
            for part in (*partial.rglob("*"), partial):
                _flush(part)
            put(partial, path)
            _flush(path.parent)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}; {remedy}") from error


def _flush(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on the disk."""
    if os.name == "nt":  # where neither can be opened for it
        return
    with suppress(OSError) if path.is_dir() else nullcontext():  # not every folder can be opened and flushed
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_target(path: Path) -> None:
    """Raise if a name belongs to a device, a pipe or a socket, which a file would replace."""
    kind = kind_of(path)
    if kind not in (None, "a file", "a folder"):
        raise ValueError(f"{path} is {kind}, and results go to files; choose another --out")


def check_writable(folder: Path) -> None:
    """Make a folder, and raise before any work if its results could not be written there."""
    kind = kind_of(folder)
    if kind not in (None, "a folder"):
        raise ValueError(f"cannot write to {folder}: it is {kind}, not a folder; choose another --out")
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror or error}; choose another --out") from error


def check_ours(folder: Path, parts: Collection[str], what: str, remedy: str) -> None:
    """Raise unless a folder is new, empty or holds nothing but the parts of `what`, which are patterns of names."""
    try:
        names = sorted(os.listdir(folder)) if os.path.lexists(folder) else []
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror or error}; {remedy}") from error
    others = [name for name in names if not any(fnmatchcase(name, part) for part in parts)]
    if others:
        raise ValueError(f"{folder} holds {others[0]}, which is not part of {what}; {remedy}")


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole; one that holds this text already is left alone, so it needs no room on a full disk."""
    content = text.encode()
    with suppress(OSError):  # the size first: what is there may be larger than the memory
        if kind_of(path) == "a file" and path.stat().st_size == len(content) and path.read_bytes() == content:
            return path
    with replacing(path) as partial:
        partial.write_bytes(content)
    return path


def write_json(path: Path, record: dict[str, Any]) -> Path:
    """Write a record as a JSON file."""
    return write_text(path, json_text(record))


def json_text(record: dict[str, Any]) -> str:
    """Return a record as the text of a JSON file, with null for NaN and infinity."""
    return json.dumps(_plain(record), indent=2, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
