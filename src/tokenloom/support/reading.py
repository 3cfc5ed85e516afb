"""Files that others may have damaged or made up: read within limits, and every fault is a ValueError in one sentence.

Only regular files are read, so no device is read without end and no pipe is waited for.  JSON is read strictly: UTF-8,
no key twice, no NaN or infinity, whole numbers of 64 bits, and no deeper than any of our own files.
"""

import hashlib
import json
import math
import os
import stat
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

LIMIT = 128 << 20
"""Bytes of the largest JSON file; a config with a tokenizer of 262,144 tokens has about half as many."""
DEPTH = 64
CHUNK = 1 << 20
KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def kind_of(path: Path) -> str | None:
    """Return what has a name, in words, or None if nothing has."""
    with suppress(OSError, ValueError):
        return KINDS.get(stat.S_IFMT(path.stat().st_mode), "something else")
    return None


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; anything else is refused without waiting, as the opening of a pipe would."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError as error:
        raise ValueError(f"{path.name} is missing") from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path.name} cannot be read: {getattr(error, 'strerror', error)}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # asked of what is open: the name may change in between
        os.close(descriptor)
        raise ValueError(f"{path.name} is {kind_of(path)}, not a file")
    return os.fdopen(descriptor, "rb")


def file_sum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    total = hashlib.sha256()
    with open_regular(path) as file:
        while piece := file.read(CHUNK):
            total.update(piece)
    return total.hexdigest()


def read_text(path: Path, limit: int = LIMIT) -> str:
    """Read a UTF-8 file of at most `limit` bytes."""
    with open_regular(path) as file:
        raw = file.read(limit + 1)
    if not raw.strip(b" \t\r\n\0"):
        raise ValueError(f"{path.name} is empty")
    if len(raw) > limit:
        raise ValueError(f"{path.name} has more than {limit:,} bytes, the limit of such a file")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name} is not UTF-8 text: {error.reason} at byte {error.start}") from error


def read_json(path: Path, limit: int = LIMIT) -> Any:
    """Read the value of a JSON file of at most `limit` bytes."""
    text = read_text(path, limit)
    try:
        return parse_json(text)
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON: {error}") from error


def parse_json(text: str) -> Any:
    """Return the value of a JSON text."""
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_int=_int, parse_float=_float, parse_constant=_float)
        _check_depth(value, DEPTH)
    except RecursionError as error:
        raise ValueError(f"it is nested deeper than {DEPTH} levels") from error
    return value


def _check_depth(value: Any, left: int) -> None:
    if left < 0:
        raise RecursionError
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, left - 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found


def _int(digits: str) -> int:
    value = int(digits[:21])  # more digits are too large in any case, and take quadratic time to read
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"the number {digits[:20]}... does not fit 64 bits")
    return value


def _float(text: str) -> float:
    """Read a number, or one of the constants NaN and Infinity, which Python's JSON allows."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value
