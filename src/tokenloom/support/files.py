"""Files that appear under their name only when they are complete, and JSON that every reader accepts.

A writer fills a temporary beside the name, waits until it is on the disk, and gives it the name in one step.  So a
kill or a full disk at any instant leaves the old or the new content, whole.

    .<stem>-partial-<host>-<process>-<random><suffix>   being written, or no longer needed: it may be removed
    .<stem>-old-<host>-<process>-<random><suffix>       the complete old folder, while the new one takes its place

The name says which process made it: what a dead one left is removed, what a living one writes is left alone.
"""

import ctypes
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tokenloom.support.reading import kind_of

HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
NAME = re.compile(r"\.(.+)-(partial|old)-([0-9a-f]{6})-([0-9]{1,9})-[0-9a-f]{8}(\.[^.]+|)")
CURRENT_FOLDER, EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of renameat2(2)."""

_mine: set[str] = set()
"""Names in use by this process; one with its number may have lived before it, as in a restarted container."""


def default_cache() -> Path:
    """Return `tokenloom` in the user's cache directory, `$XDG_CACHE_HOME` or `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tokenloom"


@contextmanager
def replacing(path: Path, remedy: str = "choose another folder with --out") -> Iterator[Path]:
    """Give a path to write to, which replaces `path` unless the block raises; `remedy` is for a disk that refuses."""
    check_here(path)
    try:
        path = Path(os.path.realpath(path))  # a link stays a link, to the new content
    except UnicodeEncodeError as error:
        raise ValueError(f"{str(path)!r} is not a name that a file can have; choose another") from error
    check_target(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tidy(path.parent, path.name)
        with temporary(path) as partial:
            yield partial
            for part in (*partial.rglob("*"), partial):
                _flush(part)
            if not (partial.is_dir() and path.is_dir()):
                os.replace(partial, path)
            elif not _exchange(partial, path):
                with temporary(path, "old") as old:  # at every instant the name, or what `recover` finds, is whole
                    os.rename(path, old)
                    os.rename(partial, path)
            _flush(path.parent)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}; {remedy}") from error


@contextmanager
def temporary(path: Path, word: str = "partial") -> Iterator[Path]:
    """Give a free name beside `path`; what has it when the block ends is removed, unless it is the only copy."""
    own = f"{HOST}-{os.getpid()}-{secrets.token_hex(4)}"  # several processes and threads may write a path at once
    beside = path.with_name(f".{path.stem}-{word}-{own}{path.suffix}")
    _mine.add(beside.name)
    try:
        yield beside
    finally:
        _mine.discard(beside.name)
        _settle(beside)


def tidy(folder: Path, name: str | None = None) -> None:
    """Finish or remove the interrupted writes of dead processes in a folder, all or those of one name."""
    with suppress(OSError, ValueError):  # an absent folder, one that is not ours to change, or an impossible name
        for entry in os.listdir(folder):
            found = NAME.fullmatch(entry)
            if found is not None and name in (None, found[1] + found[5]) and not _alive(found):
                _settle(folder / entry)


def recover(path: Path) -> Path:
    """Return the path, restored if a killed writer had renamed it."""
    if not os.path.lexists(path):
        tidy(path.parent, path.name)
    return path


def discard(path: Path) -> None:
    """Remove a folder: it loses its name first, so a kill in between leaves no half of it under that name."""
    with suppress(OSError), temporary(path) as hidden:
        os.rename(path, hidden)


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


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step; False where the system or the disk has no such call."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    names = (CURRENT_FOLDER, os.fsencode(first), CURRENT_FOLDER, os.fsencode(second))
    return call is not None and call(*names, EXCHANGE) == 0


def _settle(beside: Path) -> None:
    """Remove a temporary; an old folder whose name is free is put back instead."""
    found = NAME.fullmatch(beside.name)
    with suppress(OSError):
        if found and found[2] == "old" and not os.path.lexists(beside.with_name(found[1] + found[5])):
            os.rename(beside, beside.with_name(found[1] + found[5]))
        elif beside.is_dir() and not beside.is_symlink():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink()


def _alive(found: re.Match[str]) -> bool:
    """Return whether the process that made the name may still be at work."""
    if found[3] != HOST or os.name == "nt":  # it cannot be known; Windows has no signal 0
        return True
    if int(found[4]) == os.getpid():
        return found[0] in _mine
    try:
        os.kill(int(found[4]), 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)  # it lives, though it may belong to another user
    return True


def check_target(path: Path) -> None:
    """Raise if a name belongs to a device, a pipe or a socket, which a file would replace."""
    check_here(path)
    kind = kind_of(path)
    if kind not in (None, "a file", "a folder"):
        raise ValueError(f"{path} is {kind}, and results go to files; choose another --out")


def check_here(path: Path) -> None:
    """Raise if a path was meant as an address: s3://bucket/x would be the folder `s3:` of this one."""
    if len(path.parts) > 1 and re.fullmatch(r"[\w+.-]{2,}:", path.parts[0]):
        raise ValueError(f"{path} is an address, where figures and samples are not written; choose a folder of yours")


def check_writable(folder: Path) -> None:
    """Make a folder, and raise before any work if its results could not be written there."""
    check_here(folder)
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
        names = os.listdir(folder) if os.path.lexists(folder) else []
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror or error}; {remedy}") from error
    check_parts(names, folder, parts, what, remedy)


def check_parts(names: Iterable[str], place: str | Path, parts: Collection[str], what: str, remedy: str) -> None:
    """Raise unless all names in a folder or at an address match the parts of `what`."""
    others = [name for name in sorted(names) if not any(fnmatchcase(name, part) for part in parts)]
    if others:
        raise ValueError(f"{place} holds {others[0]}, which is not part of {what}; {remedy}")


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
