"""Temporary names beside a name, and the recovery of what a killed writer left under them.

    .<stem>-partial-<host>-<process>-<random><suffix>   being written, or no longer needed: it may be removed
    .<stem>-old-<host>-<process>-<random><suffix>       the complete old folder, while the new one takes its place

The name says which process made it: what a dead one left is removed, what a living one writes is left alone.
"""

import ctypes
import hashlib
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
NAME = re.compile(r"\.(.+)-(partial|old)-([0-9a-f]{6})-([0-9]{1,9})-[0-9a-f]{8}(\.[^.]+)?")
CURRENT_FOLDER, EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of renameat2(2)."""

_mine: set[str] = set()
"""Names in use by this process; one with its number may have lived before it, as in a restarted container."""


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
            if found is not None and name in (None, _original(found)) and not _alive(found):
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


def put(partial: Path, path: Path) -> None:
    """Give a complete file or folder its name; at every instant the name, or what `recover` finds, is old or new."""
    if not (partial.is_dir() and path.is_dir()):
        os.replace(partial, path)
    elif not _exchange(partial, path):
        with temporary(path, "old") as old:
            os.rename(path, old)
            os.rename(partial, path)


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
        if found and found[2] == "old" and not os.path.lexists(beside.with_name(_original(found))):
            os.rename(beside, beside.with_name(_original(found)))
        elif beside.is_dir() and not beside.is_symlink():
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink()


def _original(found: re.Match[str]) -> str:
    return f"{found[1]}{found[5] or ''}"


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
