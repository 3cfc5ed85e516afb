r"""Text as rows of tokens: files, folders and data sets of the Hub.

    documents -> (train, valid), disjoint -> detokenised -> tokenizer, learned from train -> rows of one length, cached

Without a validation text the last documents are held out, or the last characters of a single one.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

from torch import Tensor

from tokenloom.data.base import SOURCES, Dataset, Outline, Source
from tokenloom.data.decoder import text
from tokenloom.data.detokenise import Detokeniser, detokenise
from tokenloom.data.documents import HUB, Corpus, corpus_of, hub_corpus, text_files
from tokenloom.data.packing import Packing, check_packing, pack
from tokenloom.data.streaming import first_documents
from tokenloom.data.token_cache import REMEDY, cached_rows, digest, stored_digest
from tokenloom.models.tokenizer import Characters, Tokenizer
from tokenloom.models.tokenizer_sources import build_tokenizer, load_tokenizer
from tokenloom.support.files import default_cache, replacing
from tokenloom.support.typed import Count

Unknown = Literal["error", "drop"]
FORMAT = 3  # part of every cache key: raise it when the same input gives other tokens


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
    """characters, bytes, bpe:N, bpe (512 to 4,096 tokens, as suits the size of the text), a tokenizer.json, a folder
    with a vocabulary, or a Hub name."""
    packing: Packing = "wrap"
    """The way in which text becomes rows of fixed length."""
    detokeniser: Detokeniser = "none"
    """Undo the tokenisation in which an evaluation set is distributed, such as ` , ` and ` @-@ ` in wikitext."""
    unknown: Unknown = "error"
    """Characters that the tokenizer does not know: an error, or dropped from the text."""
    crop: bool = False
    """Shift every training row by a random number of tokens, anew at each visit (packing wrap); text8-crop does."""
    stream: Count | None = None
    """Train on the first so many documents alone; the rest is not fetched.  Hub sets keep their validation split, or
    hold out 10,000 documents before these; of files the last of these are held out."""
    given: float | None = None
    """The share of training rows with a given beginning, or with all given but a span, so that prompts are honoured;
    a quarter unless --method ar or the model of --from has no use for it."""

    is_text = True

    def at(self, path: str) -> Source:
        return replace(self, path=path, valid_path=None)

    def load(self) -> Dataset:
        if self.path is None:
            raise ValueError("text needs --data.path: a file, a folder or a Hub name such as lm1b")
        how, crop = (self.tokenizer, self.length, self.packing, self.detokeniser), self._crops
        found = load_text(self.path, self.valid_path, *how, unknown=self.unknown, stream=self.stream)
        return replace(found, given=self.given or 0.0, crop=crop)

    @property
    def _crops(self) -> bool:
        """True if rows are cropped, by the option or by the name of the data."""
        crop = self.crop or (self.path is not None and is_hub(self.path) and HUB[self.path].crop)
        if crop and self.packing != "wrap":
            raise ValueError(f"--data.crop cuts rows anywhere, which --data.packing {self.packing} does not; use wrap")
        return crop

    def outline(self) -> Outline:
        return replace(super().outline(), given=bool(self.given))


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
    unknown: Unknown = "error",
    stream: int | None = None,
) -> Dataset:
    """Return text as rows of tokens; without a validation text, the last `valid_fraction` of it is held out.

    With `stream`, only the first so many documents are trained on, and the rest is not fetched.
    """
    directory = cache or default_cache()
    check_packing(packing, length)
    found = _corpora(train, valid, valid_fraction, directory, hub_root, stream)
    corpora = [detokenised(each, detokeniser) for each in found]
    chosen, notes = _tokenizer(tokenizer, corpora[0], directory), list[str]()
    if unknown == "drop":
        corpora = [without_unknown(corpus, chosen, notes) for corpus in corpora]
    (rows, own), (held_out, other) = (token_rows(corpus, chosen, packing, length, directory) for corpus in corpora)
    name = str(train) if str(train) in HUB else Path(train).name
    return Dataset(name, chosen.vocab_size, rows, held_out, digest(own, other), text(chosen), notes=tuple(notes))


def without_unknown(corpus: Corpus, tokenizer: Tokenizer, notes: list[str]) -> Corpus:
    """Return the corpus without characters that are not in the alphabet, if there is one, and note what was dropped."""
    if not isinstance(tokenizer, Characters):
        return corpus
    unknown = re.compile(f"[^{re.escape(tokenizer.alphabet)}]")
    found = Counter(character for document in corpus.read() for character in unknown.findall(document))
    if not found:
        return corpus
    most = ", ".join(f"{character!r} ({count:,})" for character, count in found.most_common(5))
    dropped = f"{found.total():,} characters that the tokenizer does not know"
    notes.append(f"{dropped} are dropped from {corpus.name}: {most}")
    key = digest(corpus.key, "without", tokenizer.identity)
    return replace(corpus, key=key, read=lambda: (unknown.sub("", document) for document in corpus.read()))


def detokenised(corpus: Corpus, name: Detokeniser) -> Corpus:
    """Return the corpus with each document as plain text; its key says so."""
    if name == "none":
        return corpus
    return replace(corpus, key=digest(corpus.key, name), read=lambda: (detokenise(it, name) for it in corpus.read()))


def token_rows(corpus: Corpus, tokenizer: Tokenizer, packing: Packing, length: int, folder: Path) -> tuple[Tensor, str]:
    """Return the rows of a corpus, from the cache if they are there, and the sha256 of their tokens."""
    key = digest(FORMAT, corpus.key, tokenizer.identity, packing, length)
    rows = cached_rows(folder, key, length, partial(pack, corpus, tokenizer, packing, length))
    return rows, stored_digest(folder, key)


def _tokenizer(kind: str, corpus: Corpus, directory: Path) -> Tokenizer:
    """Return a tokenizer; one that is learned from the text is learned once and cached."""
    if kind.partition(":")[0] not in ("characters", "bpe"):
        return build_tokenizer(kind, corpus.read())
    path = directory / f"{digest(FORMAT, kind, corpus.key)}.tokenizer.json"
    try:
        return load_tokenizer(path)
    except ValueError:  # absent or damaged
        tokenizer = build_tokenizer(kind, corpus.read())
    with replacing(path, REMEDY) as partial:
        partial.write_text(tokenizer.to_json(), encoding="utf-8")
    return tokenizer


def _corpora(
    train: str | Path,
    valid: str | Path | None,
    fraction: float,
    directory: Path,
    hub_root: Path | None,
    stream: int | None,
) -> tuple[Corpus, Corpus]:
    """Return the training and the validation text, which share nothing."""
    if stream is not None and not is_hub(train):
        if valid is not None and f"{valid}/".startswith(f"{train}".rstrip("/") + "/"):
            raise ValueError(
                f"the validation text {valid} is part of {train}; leave it out, or leave out --data.stream"
            )
        train = first_documents(train, stream, directory)
    if valid is None and not is_hub(train):
        files = text_files(train)
        return own_splits(files) or _held_out(corpus_of(files, "the text"), fraction)
    learned_from = corpus_at(train, "train", "the training text", directory, hub_root, stream)
    if valid is None:
        return _disjoint(learned_from, corpus_at(train, "valid", "the validation text", directory, hub_root, stream))
    return _disjoint(learned_from, corpus_at(valid, "valid", "the validation text", directory, hub_root))


def corpus_at(
    source: str | Path, split: str, name: str, directory: Path, hub_root: Path | None = None, first: int | None = None
) -> Corpus:
    """Return a split of a data set of the Hub, or its first documents; or all of a path or an address."""
    if is_hub(source):
        return hub_corpus(str(source), split, name, directory, hub_root, first)
    return corpus_of(text_files(source), name)


def _disjoint(train: Corpus, valid: Corpus) -> tuple[Corpus, Corpus]:
    """Return both, or raise if some content is in both, whatever its name."""
    for content, name in train.parts.items():
        if content in valid.parts:
            other = valid.parts[content]
            both = name if name == other else f"the content of {name}, which is that of {other}"
            raise ValueError(f"the training and the validation text share {both}; they must not overlap")
    return train, valid


def _held_out(corpus: Corpus, fraction: float) -> tuple[Corpus, Corpus]:
    """Hold out the last part of the documents, at least one of them, or of the characters of a single document."""
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

    before = Corpus("the training text", digest(corpus.key, "before", cut), partial(part, None, cut))
    return before, Corpus("the validation text", digest(corpus.key, "from", cut), partial(part, cut, None))


def is_hub(source: str | Path) -> bool:
    """Return whether this names a data set of the Hub and not a local path."""
    return str(source) in HUB and not Path(source).exists()


def own_splits(files: list[Path]) -> tuple[Corpus, Corpus] | None:
    """Return files named train and valid (or validation), such as `train-0001.parquet`; others are left out."""
    first = {file: re.split(r"[._-]", file.name)[0] for file in files}
    train, valid = ([file for file in files if first[file] in words] for words in (("train",), ("valid", "validation")))
    if not train or not valid:
        return None
    return _disjoint(corpus_of(train, "the training text"), corpus_of(valid, "the validation text"))
