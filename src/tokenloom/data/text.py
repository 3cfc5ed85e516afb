r"""Text as rows of tokens: files, folders and data sets of the Hub.

    documents -> (train, valid), disjoint -> detokenised -> tokenizer, learned from train -> rows of one length, cached

Without a validation text the last documents are held out, or the last characters of a single one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

from tokenloom.data.base import SOURCES, Dataset, Source
from tokenloom.data.decoder import text
from tokenloom.data.detokenise import Detokeniser, check_detokeniser, detokenise
from tokenloom.data.documents import Corpus, corpus_of, text_files
from tokenloom.data.hub_text import HUB, hub_corpus
from tokenloom.data.packing import Packing, check_packing, encode_documents, pack
from tokenloom.data.token_cache import REMEDY, cached_rows, default_cache, digest, stored_digest
from tokenloom.models.tokenizer import Ids, Tokenizer
from tokenloom.models.tokenizer_sources import build_tokenizer, load_tokenizer
from tokenloom.support.files import replacing

FORMAT = 2  # part of every cache key: raise it when the same input gives other tokens


@SOURCES.register("text")
@dataclass(frozen=True)
class TextSource(Source):
    """Text from a file, a folder or the Hub, as rows of tokens."""

    kind: str = "text"
    path: str | None = None
    """A file or folder of .txt, .jsonl or .parquet, or a Hub name such as lm1b."""
    valid_path: str | None = None
    """Validation text; without it a part of `path` is held out."""
    length: int = 128
    """Tokens per sequence."""
    tokenizer: str = "characters"
    """characters, bytes, bpe:N, a tokenizer.json, a folder with a vocabulary, or a Hub name."""
    packing: Packing = "wrap"
    """How text becomes rows of fixed length."""
    detokeniser: Detokeniser = "none"
    """Undo the tokenisation in which an evaluation set is distributed, such as ` , ` and ` @-@ ` in wikitext."""

    is_text = True

    def at(self, path: str) -> Source:
        return replace(self, path=path, valid_path=None)

    def load(self) -> Dataset:
        if self.path is None:
            raise ValueError("text needs --data.path: a file, a folder or a Hub name such as lm1b")
        how = (self.tokenizer, self.length, self.packing, self.detokeniser)
        return load_text(self.path, self.valid_path, *how)


def load_text(
    train: str | Path,
    valid: str | Path | None = None,
    tokenizer: str = "characters",
    length: int = 128,
    packing: Packing = "wrap",
    detokeniser: Detokeniser = "none",
    valid_fraction: float = 0.05,
    cache: Path | None = None,
    hub_root: Path | None = None,
) -> Dataset:
    """Text as rows of tokens."""
    directory = cache or default_cache()
    check_packing(packing, length, end=0)
    corpora = _corpora(train, valid, valid_fraction, directory, hub_root)
    learned_from, held_out = (detokenised(corpus, detokeniser) for corpus in corpora)
    chosen = _tokenizer(tokenizer, learned_from, directory)
    check_packing(packing, length, chosen.end_of_sequence)
    keys = [digest(FORMAT, part.key, chosen.identity, packing, length) for part in (learned_from, held_out)]
    tables = [
        cached_rows(directory, key, length, partial(packed, part, chosen, packing, length))
        for key, part in zip(keys, (learned_from, held_out), strict=True)
    ]
    name = str(train) if str(train) in HUB else Path(train).name
    fingerprint = digest(*(stored_digest(directory, key) for key in keys))
    return Dataset(name, chosen.vocab_size, tables[0], tables[1], fingerprint, text(chosen))


def detokenised(corpus: Corpus, name: Detokeniser) -> Corpus:
    """Each document as plain text; the key says so."""
    if name == "none":
        return corpus
    check_detokeniser(name)
    return replace(
        corpus, key=digest(corpus.key, name), read=lambda: (detokenise(document, name) for document in corpus.read())
    )


def packed(corpus: Corpus, tokenizer: Tokenizer, packing: str, length: int) -> Iterator[Ids]:
    """Rows of tokens, some at a time."""
    documents = encode_documents(corpus.read(), tokenizer, corpus.name)
    ends = (tokenizer.start_of_sequence, tokenizer.padding)
    return pack(documents, packing, length, tokenizer.end_of_sequence, corpus.name, *ends)


def _tokenizer(kind: str, corpus: Corpus, directory: Path) -> Tokenizer:
    """What learns from the text is learned once."""
    if kind != "characters" and not kind.startswith("bpe:"):
        return build_tokenizer(kind, ())
    path = directory / f"{digest(FORMAT, kind, corpus.key)}.tokenizer.json"
    try:
        return load_tokenizer(path)
    except ValueError:  # absent or damaged
        tokenizer = build_tokenizer(kind, corpus.read())
    with replacing(path, REMEDY) as partial:
        partial.write_text(tokenizer.to_json(), encoding="utf-8")
    return tokenizer


def _corpora(
    train: str | Path, valid: str | Path | None, fraction: float, directory: Path, hub_root: Path | None
) -> tuple[Corpus, Corpus]:
    """The training and the validation text, which share nothing."""
    if valid is None and not is_hub(train):
        files = text_files(train, HUB)
        return own_splits(files) or _held_out(corpus_of(files, "the text"), fraction)
    held_out = train if valid is None else valid
    names = ("the training text", "the validation text")
    learned_from, held_out_from = (
        hub_corpus(str(source), split, name, directory, hub_root)
        if is_hub(source)
        else corpus_of(text_files(source, HUB), name)
        for source, split, name in zip((train, held_out), ("train", "valid"), names, strict=True)
    )
    _check_disjoint(learned_from, held_out_from)
    return learned_from, held_out_from


def _check_disjoint(train: Corpus, valid: Corpus) -> None:
    """No content in both, whatever its name."""
    for content, name in train.parts.items():
        if content in valid.parts:
            other = valid.parts[content]
            both = name if name == other else f"the content of {name}, which is that of {other}"
            raise ValueError(f"the training and the validation text share {both}; they must not overlap")


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


def is_hub(source: str | Path) -> bool:
    """Whether this names a data set of the Hub and no local path."""
    return str(source) in HUB and not Path(source).exists()


def own_splits(files: list[Path]) -> tuple[Corpus, Corpus] | None:
    """Files named train and valid (or validation), such as `valid.txt` or `train-0001.parquet`; others are left out."""
    first_words = [re.split(r"[._-]", file.name)[0] for file in files]
    train = [file for file, word in zip(files, first_words, strict=True) if word == "train"]
    valid = [file for file, word in zip(files, first_words, strict=True) if word in ("valid", "validation")]
    if not train or not valid:
        return None
    learned_from, held_out_from = corpus_of(train, "the training text"), corpus_of(valid, "the validation text")
    _check_disjoint(learned_from, held_out_from)
    return learned_from, held_out_from
