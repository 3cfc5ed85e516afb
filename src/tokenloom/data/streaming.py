"""The first documents of a text that nobody fetches whole, read from where they are and kept as JSON lines."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from tokenloom.data.documents import SUFFIXES, documents_of
from tokenloom.data.token_cache import REMEDY, digest
from tokenloom.support.addresses import is_address, listing, opened, reaching, version
from tokenloom.support.files import replacing


@dataclass(frozen=True)
class FarFile:
    """A file that is read only as far as needed, in the place of a path."""

    fs: Any
    path: str

    def __str__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        """Its last name."""
        return PurePosixPath(self.path).name

    @property
    def suffix(self) -> str:
        """Its ending."""
        return PurePosixPath(self.path).suffix

    def open(self, mode: str) -> io.BufferedReader:
        """Open it for reading."""
        return io.BufferedReader(self.fs.open(self.path, mode))


def first_documents(source: str | Path, count: int, folder: Path) -> Path:
    """Return a file, in the folder, with the first documents of a path or an address; no more than they is read."""
    address = source if is_address(source) else str(Path(source).resolve())
    files = {path: info for path, info in sorted(listing(address).items()) if path.endswith(SUFFIXES)}
    if not files:
        raise ValueError(f"nothing at {source} can be read as text; file names must end in {', '.join(SUFFIXES)}")
    kept = folder / "beginnings" / f"{digest(address, version(files), count)}.jsonl"
    if not kept.is_file():
        fs, _ = opened(address)

        def documents() -> Iterator[str]:
            for info in files.values():
                yield from documents_of(FarFile(fs, info["name"]))

        written = (json.dumps({"text": document}) + "\n" for document in islice(documents(), count))
        with (
            replacing(kept, REMEDY) as partial,
            partial.open("w", encoding="utf-8") as lines,
            reaching(address, "read"),
        ):
            lines.writelines(written)
    return kept
