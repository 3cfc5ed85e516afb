r"""Documents of files: plain text, JSON lines and parquet.

A document is a `.txt` file or what stands between its `<|endoftext|>` lines, a line of `.jsonl` or a row of `.parquet`
(field `text`); white space alone is not a document.
"""

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from tokenloom.data.token_cache import digest
from tokenloom.models.tokenizer import END_OF_TEXT
from tokenloom.support.checks import nearest
from tokenloom.support.extras import optional
from tokenloom.support.reading import file_sum

SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True)
class Corpus:
    """Documents that can be read any number of times, and a key of their contents."""

    name: str
    key: str
    read: Callable[[], Iterator[str]]
    parts: dict[str, str] = field(default_factory=dict)
    """The name of each part by the sha256 of its content."""


def text_files(source: str | Path, names: Iterable[str]) -> list[Path]:
    """Return the readable files of a path, sorted; `names` are what else the user may have meant."""
    path = Path(source)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))
        if not found:
            raise ValueError(f"the folder {path} has no file that ends in {', '.join(SUFFIXES)}")
        return found
    if not path.is_file():
        raise ValueError(f"there is no file, folder or data set {source}; {nearest(str(source), names)}")
    if not path.name.endswith(SUFFIXES):
        raise ValueError(f"{path} is not text that can be read; its name must end in {', '.join(SUFFIXES)}")
    return [path]


def corpus_of(files: list[Path], name: str) -> Corpus:
    """Return the documents of some files, one after the other."""

    def read() -> Iterator[str]:
        for file in files:
            empty = True
            for document in _reader(file)(file):
                if document and not document.isspace():
                    empty = False
                    yield document
            if empty:
                raise ValueError(f"{file} is empty: it has no document with anything but white space")

    parts = [(_reader(file).__name__, file_sum(file)) for file in files]
    contents = [content for _, content in parts]
    return Corpus(name, digest(*chain(*parts)), read, dict(zip(contents, map(str, files), strict=True)))


def _reader(path: Path) -> Callable[[Path], Iterator[str]]:
    """Return the reader of a file; its name is part of cache keys."""
    if path.suffix == ".parquet":
        return _read_parquet
    return _read_lines if path.name.removesuffix(".gz").endswith(".jsonl") else _read_plain


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            for number, line in enumerate(file, 1):
                if b"\0" in line:
                    raise ValueError(f"{path} is a binary file, not text: line {number} has a NUL byte")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text: line {number} cannot be decoded ({error.reason})") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is not a whole gzip file: {error}") from error


def _read_plain(path: Path) -> Iterator[str]:
    document: list[str] = []
    for line in _lines(path):
        if line.strip() == END_OF_TEXT:
            yield "".join(document)
            document = []
        else:
            document.append(line)
    yield "".join(document)


def _read_lines(path: Path) -> Iterator[str]:
    for number, line in enumerate(_lines(path), 1):
        if line.isspace():
            continue
        try:
            text = json.loads(line)["text"]
            text.encode()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f'line {number} of {path} is not a JSON object with a string field "text"') from error
        yield text


def _read_parquet(path: Path) -> Iterator[str]:
    library = optional("pyarrow.parquet", "text")
    try:
        file: Any = library.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise ValueError(f"{path} is not a parquet file: {error}") from error
    if "text" not in file.schema_arrow.names:
        raise ValueError(f"{path} has no column text; it has {', '.join(file.schema_arrow.names)}")
    for batch in file.iter_batches(columns=["text"]):
        yield from (text or "" for text in batch.column(0).to_pylist())
