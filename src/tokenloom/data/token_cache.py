r"""Tokenise once: rows of tokens in a file named by everything that determines them.

    key     = sha256 of (contents of the input, part of it, tokenizer, packing, length)
    tokens  = <key>.tokens, rows * length little-endian int32 and nothing else
    header  = <key>.json, {rows, length, bytes, sha256 of the tokens}

A file appears under its name only when it is complete (written beside it, then renamed), so two processes that build
the same key at once both end with a good file.  A file whose size or checksum is not the header's is built again.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.data.tokenizer import Ids

CHUNK = 1 << 20


@dataclass(frozen=True)
class Header:
    """What the tokens file must be."""

    rows: int
    length: int
    bytes: int
    sha256: str


def default_cache() -> Path:
    """`tokenloom` in the user's cache directory, `$XDG_CACHE_HOME` or `~/.cache`."""
    configured = os.environ.get("XDG_CACHE_HOME")
    return (Path(configured) if configured else Path.home() / ".cache") / "tokenloom"


def digest(*parts: str | int | float) -> str:
    """A sha256 that no two different lists of parts share."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The sha256 of a file's contents."""
    content = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            content.update(chunk)
    return content.hexdigest()


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when all of it is written, and not at all after an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".partial")
    except OSError as error:
        raise ValueError(
            f"the cache directory {path.parent} cannot be written ({error.strerror}); pass another one as cache"
        ) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def cached_rows(
    directory: Path, key: str, length: int, build: Callable[[], Iterable[Ids]]
) -> Int[Tensor, "rows length"]:
    """The rows of a key, memory-mapped; `build` yields them in blocks [rows, length] where the cache has none."""
    tokens, header_path = directory / f"{key}.tokens", directory / f"{key}.json"
    header = _read_header(header_path)
    if header is None or header.length != length or not _intact(tokens, header):
        header = _write(tokens, header_path, length, build())
    table = np.memmap(tokens, dtype="<i4", mode="c", shape=(header.rows, length))
    return torch.from_numpy(table)


def _read_header(path: Path) -> Header | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        return Header(int(stored["rows"]), int(stored["length"]), int(stored["bytes"]), str(stored["sha256"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _intact(tokens: Path, header: Header) -> bool:
    if not header.rows or header.rows * header.length * 4 != header.bytes:
        return False
    return tokens.is_file() and tokens.stat().st_size == header.bytes and file_digest(tokens) == header.sha256


def _write(tokens: Path, header_path: Path, length: int, blocks: Iterable[Ids]) -> Header:
    content, rows = hashlib.sha256(), 0
    with whole_file(tokens) as file:
        for block in blocks:
            raw = block.astype("<i4").tobytes()
            content.update(raw)
            file.write(raw)
            rows += len(block)
        if not rows:
            raise ValueError(f"there are no rows of {length} tokens to write; the text is empty")
    header = Header(rows, length, rows * length * 4, content.hexdigest())
    with whole_file(header_path) as file:
        file.write(json.dumps(asdict(header)).encode())
    return header
