r"""Documents of files (plain text, JSON lines and parquet), and of data sets of the Hub, split as the field does.

A document is a `.txt` file or what stands between its `<|endoftext|>` lines, a line of `.jsonl` or a row of `.parquet`
(field `text`), or a row of a data set; white space alone is not a document.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from tokenloom.data.detokenise import Detokeniser
from tokenloom.data.token_cache import digest
from tokenloom.models.tokenizer import END_OF_TEXT
from tokenloom.support.addresses import local
from tokenloom.support.extras import optional
from tokenloom.support.hub import hub_or_cache
from tokenloom.support.reading import file_sum
from tokenloom.support.words import nearest

SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True)
class Corpus:
    """Documents that can be read any number of times, and a key of their contents."""

    name: str
    key: str
    read: Callable[[], Iterator[str]]
    parts: dict[str, str] = field(default_factory=dict)
    """The name of each part by the sha256 of its content."""


HELD_OUT = 10_000
"""Documents at the beginning of a streamed data set that are held out, if it has no validation split."""


@dataclass(frozen=True)
class HubText:
    """A data set of the Hub; if `exported`, the Hub's own parquet export is read, as the data set is a script."""

    path: str
    config: str | None = None
    field: str = "text"
    train: str = "train"
    valid: str = "validation"
    exported: bool = False
    detokeniser: Detokeniser = "none"
    """The one that the field applies before it scores the data set."""
    crop: bool = False
    """Train on rows from anywhere in the text (`Dataset.crop`)."""
    streamed: tuple[int, int] | None = None
    """Of a set that nobody downloads whole: the documents at its beginning that are held out (none where it has a
    validation split), and how many follow to train on.  They are read twice, for their checksum and their tokens."""

    def first(self, count: int) -> "HubText":
        """Return the set with its first documents alone to train on."""
        whole = self.train.partition("[")[0]
        if self.streamed is None and whole == self.train:
            return replace(self, streamed=(0, count))
        return replace(self, train=whole, valid=whole, streamed=(HELD_OUT, count))


HUB = {
    "lm1b": HubText("billion-word-benchmark/lm1b", "plain_text", valid="test", exported=True, detokeniser="lm1b"),
    "openwebtext": HubText("Skylion007/openwebtext", train="train[:-100000]", valid="train[-100000:]"),
    "wikitext": HubText("Salesforce/wikitext", "wikitext-103-raw-v1", detokeniser="wikitext"),
    "wikitext2": HubText("Salesforce/wikitext", "wikitext-2-raw-v1", detokeniser="wikitext"),
    "text8": HubText("afmck/text8"),
    "text8-crop": HubText("afmck/text8", crop=True),
    "fineweb-edu": HubText("HuggingFaceFW/fineweb-edu", "sample-10BT", valid="train", streamed=(HELD_OUT, 1_000_000)),
    "ptb": HubText("ptb-text-only/ptb_text_only", "penn_treebank", "sentence", exported=True, detokeniser="ptb"),
    "ag_news": HubText("fancyzhx/ag_news", valid="test"),
    "lambada": HubText("cimec/lambada", detokeniser="lambada"),
    "scientific_papers/pubmed": HubText(
        "armanc/scientific_papers", "pubmed", "article", exported=True, detokeniser="scientific_papers"
    ),
    "scientific_papers/arxiv": HubText(
        "armanc/scientific_papers", "arxiv", "article", exported=True, detokeniser="scientific_papers"
    ),
}


def text_files(source: str | Path) -> list[Path]:
    """Return the readable files of a path, sorted."""
    path = local(source)
    if not path.exists():
        raise ValueError(f"there is no file, folder or data set {source}; {nearest(str(source), HUB)}")
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = [file for file in files if file.is_file() and file.name.endswith(SUFFIXES)]
    if not found:
        raise ValueError(f"nothing in {path} can be read as text; file names must end in {', '.join(SUFFIXES)}")
    return found


def corpus_of(files: list[Path], name: str) -> Corpus:
    """Return the documents of some files, one after the other."""

    def read() -> Iterator[str]:
        return chain.from_iterable(map(documents_of, files))

    parts = [(_reader(file).__name__, file_sum(file)) for file in files]
    contents = [content for _, content in parts]
    return Corpus(name, digest(*chain(*parts)), read, dict(zip(contents, map(str, files), strict=True)))


def documents_of(file: Any) -> Iterator[str]:
    """Yield the documents of a path, or of what opens as one does."""
    empty = True
    for document in _reader(file)(file):
        if document and not document.isspace():
            empty = False
            yield document
    if empty:
        raise ValueError(f"{file} is empty: it has no document with anything but white space")


def hub_corpus(
    name: str, split: str, title: str, directory: Path, hub_root: Path | None, first: int | None = None
) -> Corpus:
    """Return one split of a data set of the Hub, or of its copy under `hub_root`; or its first documents alone."""
    entry = HUB[name] if first is None else HUB[name].first(first)
    part = entry.train if split == "train" else entry.valid
    path = entry.path if hub_root is None else str(hub_root / entry.path)
    library, cache = optional("datasets", "text"), str(directory / "hub")
    files = {part: f"{entry.config}/{part}/*.parquet"} if entry.exported else None
    revision = "refs/convert/parquet" if entry.exported and hub_root is None else None
    config = None if entry.exported else entry.config
    try:
        with hub_or_cache(local=hub_root is not None):
            where = {"data_files": files, "split": part, "revision": revision, "cache_dir": cache}
            table = library.load_dataset(path, config, **where, streaming=entry.streamed is not None)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"the data set {name} ({path}, split {part}) could not be loaded with datasets.load_dataset "
            f"({type(error).__name__}: {reason}); go online once, or give a local copy as hub_root or as files"
        ) from error

    if entry.streamed is not None:
        held, trained = entry.streamed
        if split == "train":
            table = table.skip(held).take(trained)
        elif held:
            table = table.take(held)

    def read() -> Iterator[str]:
        for batch in table.select_columns([entry.field]).iter(batch_size=1000):
            yield from (text for text in batch[entry.field] if text and not text.isspace())

    content = hashlib.sha256()
    for document in read():
        content.update(digest(document).encode())
    return Corpus(title, content.hexdigest(), read, {content.hexdigest(): f"{name} {part}"})


def _reader(path: Any) -> Callable[[Any], Iterator[str]]:
    """Return the reader of a file; its name is part of cache keys."""
    if path.suffix == ".parquet":
        return _read_parquet
    return _read_lines if path.name.removesuffix(".gz").endswith(".jsonl") else _read_plain


def read_lines(path: Any) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, plain or gzipped, with their ends."""
    with path.open("rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw
        try:
            for number, line in enumerate(file, 1):
                if b"\0" in line:
                    raise ValueError(f"{path} is a binary file, not text: line {number} has a NUL byte")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text: line {number} cannot be decoded ({error.reason})") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is not a whole gzip file: {error}") from error


def _read_plain(path: Any) -> Iterator[str]:
    document: list[str] = []
    for line in read_lines(path):
        if line.strip() == END_OF_TEXT:
            yield "".join(document)
            document = []
        else:
            document.append(line)
    yield "".join(document)


def _read_lines(path: Any) -> Iterator[str]:
    for number, line in enumerate(read_lines(path), 1):
        if line.isspace():
            continue
        try:
            text = json.loads(line)["text"]
            text.encode()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f'line {number} of {path} is not a JSON object with a string field "text"') from error
        yield text


def _read_parquet(path: Any) -> Iterator[str]:
    library = optional("pyarrow.parquet", "text")
    with path.open("rb") as raw:
        try:
            file: Any = library.ParquetFile(raw)
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
            raise ValueError(f"{path} is not a parquet file: {error}") from error
        if "text" not in file.schema_arrow.names:
            raise ValueError(f"{path} has no column text; it has {', '.join(file.schema_arrow.names)}")
        for batch in file.iter_batches(columns=["text"]):
            yield from (text or "" for text in batch.column(0).to_pylist())
