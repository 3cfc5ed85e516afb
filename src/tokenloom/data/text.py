r"""Text as rows of tokens: files, folders and data sets of the Hub.

    documents -> (train, valid), disjoint -> tokenizer, learned from train alone -> rows of one length, cached

A document is a `.txt` file or what stands between its `<|endoftext|>` lines, a line of `.jsonl` or a row of `.parquet`
(field `text`), or a row of a Hub data set; white space alone is no document.  Without a validation text the last
documents are held out, or the last characters of a single one.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from jaxtyping import Int
from torch import Tensor

from tokenloom.checks import nearest
from tokenloom.data.base import Dataset
from tokenloom.data.packing import Packing, check_packing, encode_documents, pack
from tokenloom.data.token_cache import cached_rows, default_cache, digest, file_digest, whole_file
from tokenloom.data.tokenizer import END_OF_TEXT, Ids, Tokenizer, build_tokenizer, load_tokenizer, text_extra

FORMAT = 1  # part of every cache key: raise it when the same input gives other tokens
SUFFIXES = (".txt", ".txt.gz", ".jsonl", ".jsonl.gz", ".parquet")


@dataclass(frozen=True)
class Corpus:
    """Documents that can be read any number of times, and a key of their contents."""

    name: str
    key: str
    read: Callable[[], Iterator[str]]
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class HubText:
    """Where a data set is on the Hub.  `exported`: read the Hub's own parquet export, as the data set is a script."""

    path: str
    config: str | None
    field: str
    train: str
    valid: str
    exported: bool = False


HUB = {
    "lm1b": HubText("billion-word-benchmark/lm1b", "plain_text", "text", "train", "test", exported=True),
    "openwebtext": HubText("Skylion007/openwebtext", None, "text", "train[:-100000]", "train[-100000:]"),
    "wikitext": HubText("Salesforce/wikitext", "wikitext-103-raw-v1", "text", "train", "validation"),
    "ptb": HubText("ptb-text-only/ptb_text_only", "penn_treebank", "sentence", "train", "validation", exported=True),
    "ag_news": HubText("fancyzhx/ag_news", None, "text", "train", "test"),
    "lambada": HubText("cimec/lambada", None, "text", "train", "validation"),
    "scientific_papers/pubmed": HubText(
        "armanc/scientific_papers", "pubmed", "article", "train", "validation", exported=True
    ),
}


@dataclass(frozen=True)
class RowDecoder:
    """Rows of ids as strings; carries the tokenizer for checkpoints."""

    tokenizer: Tokenizer

    def __call__(self, tokens: Int[Tensor, "batch length"]) -> list[str]:
        """One string a row."""
        return [self.tokenizer.decode(row) for row in tokens.tolist()]


def load_text(
    train: str | Path,
    valid: str | Path | None = None,
    tokenizer: str = "characters",
    length: int = 128,
    packing: Packing = "wrap",
    valid_fraction: float = 0.05,
    cache: Path | None = None,
    hub_root: Path | None = None,
) -> Dataset:
    """Text from a file, a folder or a name in `HUB`, as rows of `length` tokens.

    `valid_fraction` is held out where `valid` is None and the source has no validation split of its own.  `hub_root` is
    a folder of copies of Hub repositories (`<hub_root>/Salesforce/wikitext/...`), read instead of the Hub.
    """
    directory = cache or default_cache()
    check_packing(packing, length, end=0)
    learned_from, held_out = _corpora(train, valid, valid_fraction, directory, hub_root)
    chosen = _tokenizer(tokenizer, learned_from, directory)
    check_packing(packing, length, chosen.end_of_sequence)
    keys = [digest(FORMAT, part.key, chosen.identity, packing, length) for part in (learned_from, held_out)]
    tables = [
        cached_rows(directory, key, length, partial(_rows, part, chosen, packing, length))
        for key, part in zip(keys, (learned_from, held_out), strict=True)
    ]
    name = str(train) if str(train) in HUB else Path(train).name
    return Dataset(name, chosen.vocab_size, tables[0], tables[1], digest(*keys), RowDecoder(chosen))


def _rows(corpus: Corpus, tokenizer: Tokenizer, packing: str, length: int) -> Iterator[Ids]:
    documents = encode_documents(corpus.read(), tokenizer, corpus.name)
    return pack(documents, packing, length, tokenizer.end_of_sequence, corpus.name)


def _tokenizer(kind: str, corpus: Corpus, directory: Path) -> Tokenizer:
    """What learns from the text is learned once."""
    if kind != "characters" and not kind.startswith("bpe:"):
        return build_tokenizer(kind, ())
    path = directory / f"{digest(FORMAT, kind, corpus.key)}.tokenizer.json"
    try:
        return load_tokenizer(path)
    except ValueError:  # absent or damaged
        tokenizer = build_tokenizer(kind, corpus.read())
    with whole_file(path) as file:
        file.write(tokenizer.to_json().encode())
    return tokenizer


def _corpora(
    train: str | Path, valid: str | Path | None, fraction: float, directory: Path, hub_root: Path | None
) -> tuple[Corpus, Corpus]:
    """The training and the validation text, which share nothing."""
    if valid is None and not _is_hub(train):
        return _own_splits(_files(train)) or _held_out(_from_files(_files(train), "the text"), fraction)
    held_out = train if valid is None else valid
    names = ("the training text", "the validation text")
    learned_from, held_out_from = (
        _hub(str(source), split, name, directory, hub_root) if _is_hub(source) else _from_files(_files(source), name)
        for source, split, name in zip((train, held_out), ("train", "valid"), names, strict=True)
    )
    shared = set(learned_from.parts) & set(held_out_from.parts)
    if shared:
        raise ValueError(f"the training and the validation text share {min(shared)}; they must not overlap")
    return learned_from, held_out_from


def _held_out(corpus: Corpus, fraction: float) -> tuple[Corpus, Corpus]:
    """The last part of the documents, at least one of them, or of the characters of a single document."""
    if not 0 < fraction < 1:
        raise ValueError(f"valid_fraction must be in (0, 1), got {fraction}")
    count, size = 0, 0
    for document in corpus.read():
        count, size = count + 1, len(document)
    total = size if count == 1 else count
    cut = total - min(max(1, round(total * fraction)), total - 1)

    def part(start: int | None, stop: int | None) -> Iterator[str]:
        if count == 1:
            return iter([next(corpus.read())[start:stop]])
        return islice(corpus.read(), start, stop)

    return (
        Corpus("the training text", digest(corpus.key, "before", cut), partial(part, None, cut)),
        Corpus("the validation text", digest(corpus.key, "from", cut), partial(part, cut, None)),
    )


def _is_hub(source: str | Path) -> bool:
    return str(source) in HUB and not Path(source).exists()


def _files(source: str | Path) -> list[Path]:
    """The readable files of a path, sorted."""
    path = Path(source)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(SUFFIXES))
        if not found:
            raise ValueError(f"the folder {path} has no file that ends in {', '.join(SUFFIXES)}")
        return found
    if not path.is_file():
        raise ValueError(f"there is no file, folder or data set {source}; {nearest(str(source), HUB)}")
    if not path.name.endswith(SUFFIXES):
        raise ValueError(f"{path} is no text that can be read; its name must end in {', '.join(SUFFIXES)}")
    return [path]


def _own_splits(files: list[Path]) -> tuple[Corpus, Corpus] | None:
    """Files named train and valid (or validation), such as `valid.txt` or `train-0001.parquet`; others are left out."""
    first_words = [re.split(r"[._-]", file.name)[0] for file in files]
    train = [file for file, word in zip(files, first_words, strict=True) if word == "train"]
    valid = [file for file, word in zip(files, first_words, strict=True) if word in ("valid", "validation")]
    if not train or not valid:
        return None
    return _from_files(train, "the training text"), _from_files(valid, "the validation text")


def _from_files(files: list[Path], name: str) -> Corpus:
    def read() -> Iterator[str]:
        for file in files:
            yield from _documents(file)

    key = digest(*(part for file in files for part in (_reader(file).__name__, file_digest(file))))
    return Corpus(name, key, read, tuple(str(file.resolve()) for file in files))


def _reader(path: Path) -> Callable[[Path], Iterator[str]]:
    if path.suffix == ".parquet":
        return _read_parquet
    return _read_lines if path.name.removesuffix(".gz").endswith(".jsonl") else _read_plain


def _documents(path: Path) -> Iterator[str]:
    """The documents of one file, of which there must be one."""
    empty = True
    for document in _reader(path)(path):
        if document and not document.isspace():
            empty = False
            yield document
    if empty:
        raise ValueError(f"{path} is empty: it has no document with anything but white space")


def _lines(path: Path) -> Iterator[str]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            for number, line in enumerate(file, 1):
                if b"\0" in line:
                    raise ValueError(f"{path} is a binary file, not text: line {number} has a NUL byte")
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is no UTF-8 text: line {number} cannot be decoded ({error.reason})") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is no whole gzip file: {error}") from error


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
            raise ValueError(f'line {number} of {path} is no JSON object with a string field "text"') from error
        yield text


def _read_parquet(path: Path) -> Iterator[str]:
    library = text_extra("pyarrow.parquet")
    try:
        file: Any = library.ParquetFile(path)
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise ValueError(f"{path} is no parquet file: {error}") from error
    if "text" not in file.schema_arrow.names:
        raise ValueError(f"{path} has no column text; it has {', '.join(file.schema_arrow.names)}")
    for batch in file.iter_batches(columns=["text"]):
        yield from (text or "" for text in batch.column(0).to_pylist())


def _hub(name: str, split: str, title: str, directory: Path, hub_root: Path | None) -> Corpus:
    """One split of a data set of the Hub, or of its copy."""
    entry = HUB[name]
    part = entry.train if split == "train" else entry.valid
    path = entry.path if hub_root is None else str(hub_root / entry.path)
    library = text_extra("datasets")
    files = {part: f"{entry.config}/{part}/*.parquet"} if entry.exported else None
    revision = "refs/convert/parquet" if entry.exported and hub_root is None else None
    config = None if entry.exported else entry.config
    try:
        table = library.load_dataset(
            path, config, data_files=files, split=part, revision=revision, cache_dir=str(directory / "hub")
        )
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"the data set {name} ({path}, split {part}) could not be loaded with datasets.load_dataset "
            f"({type(error).__name__}: {reason}); go online once, or give a local copy as hub_root or as files"
        ) from error

    def read() -> Iterator[str]:
        for batch in table.select_columns([entry.field]).iter(batch_size=1000):
            yield from (text for text in batch[entry.field] if text and not text.isspace())

    content = hashlib.sha256()
    for document in read():
        content.update(digest(document).encode())
    return Corpus(title, content.hexdigest(), read, (f"{name} {part}",))
