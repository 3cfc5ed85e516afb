r"""Tokenise once: rows of tokens in a file named by everything that determines them.

    key     = sha256 of (contents of the input, part of it, tokenizer, packing, length)
    tokens  = <key>.tokens, rows * length little-endian int32 and nothing else
    header  = <key>.json, {rows, length, bytes, sha256 of the tokens}

A file appears under its name only when it is complete (written beside it, then renamed), so two processes that build
the same key at once both end with a good file.  A file whose size or checksum is not the header's is built again.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.models.tokenizer import Ids
from tokenloom.support.files import replacing
from tokenloom.support.reading import file_sum

REMEDY = "pass another directory as cache"


def digest(*parts: str | int | float) -> str:
    """Return a sha256 that no two different lists of parts share."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def cached_rows(folder: Path, key: str, length: int, build: Callable[[], Iterable[Ids]]) -> Int[Tensor, "rows length"]:
    """Return the rows of a key, memory-mapped; `build` yields them in blocks [rows, length] if they are not cached."""
    tokens, header = folder / f"{key}.tokens", folder / f"{key}.json"
    if not _intact(tokens, header, length):
        with replacing(tokens, REMEDY) as partial, partial.open("wb") as file:
            for block in build():
                file.write(block.astype("<i4").tobytes())
            if not file.tell():
                raise ValueError(f"there are no rows of {length} tokens to write; the text is empty")
        with replacing(header, REMEDY) as partial:
            partial.write_text(json.dumps(_header(tokens, length)))
    # Copy on write: what a caller changes in memory never reaches the file.
    return torch.from_numpy(np.memmap(tokens, dtype="<i4", mode="c").reshape(-1, length))


def stored_digest(folder: Path, key: str) -> str:
    """Return the sha256 of cached tokens: of the content alone, whatever the key is made of."""
    return str(json.loads((folder / f"{key}.json").read_text(encoding="utf-8"))["sha256"])


def _header(tokens: Path, length: int) -> dict[str, Any]:
    size = tokens.stat().st_size
    return {"rows": size // (4 * length), "length": length, "bytes": size, "sha256": file_sum(tokens)}


def _intact(tokens: Path, header: Path, length: int) -> bool:
    """Return whether the rows are cached as their header says."""
    try:
        return bool(json.loads(header.read_text(encoding="utf-8")) == _header(tokens, length))
    except (OSError, ValueError):
        return False
