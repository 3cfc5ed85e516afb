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
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.models.tokenizer import Ids
from tokenloom.support.files import replacing

CHUNK = 1 << 20
REMEDY = "pass another directory as cache"


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


def stored_digest(directory: Path, key: str) -> str:
    """The sha256 of the tokens of a key that has been cached: of the content alone, whatever the key is made of."""
    header = _read_header(directory / f"{key}.json")
    assert header is not None  # `cached_rows` has just written or read it
    return header.sha256


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
    with replacing(tokens, REMEDY) as partial, partial.open("wb") as file:
        for block in blocks:
            raw = block.astype("<i4").tobytes()
            content.update(raw)
            file.write(raw)
            rows += len(block)
        if not rows:
            raise ValueError(f"there are no rows of {length} tokens to write; the text is empty")
    header = Header(rows, length, rows * length * 4, content.hexdigest())
    with replacing(header_path, REMEDY) as partial:
        partial.write_text(json.dumps(asdict(header)))
    return header
