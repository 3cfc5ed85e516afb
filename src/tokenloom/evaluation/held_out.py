"""Held-out sequences a model is measured on, with a fingerprint that says what exactly they are.

A source is nothing (the run's own validation split), a kind of data such as markov or digits, or a path or Hub name:
text is tokenised with the run's own tokenizer, packed as the run packs and cut to the network's length.

A run's own data is what has the fingerprint that the run recorded, not what has its name.  Where it is absent or
another, the slice of text that came with the model (`held_out.txt` beside its weights) stands for it.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from tokenloom.data.base import SOURCES, Dataset, Outline, Source, take
from tokenloom.data.decoder import Decoder, text
from tokenloom.data.detokenise import Detokeniser
from tokenloom.data.documents import corpus_of, text_files
from tokenloom.data.hub_text import HUB, hub_corpus
from tokenloom.data.packing import Packing, check_packing
from tokenloom.data.text import TextSource, detokenised, is_hub, own_splits, packed
from tokenloom.data.token_cache import cached_rows, default_cache, digest
from tokenloom.evaluation.runs import Run
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.types import Flags, Tokens

CHUNK = 1 << 16
SLICE = "held_out.txt"
"""Held-out text that a model folder may hold."""

DETOKENISERS: dict[str, Detokeniser] = {
    "wikitext": "wikitext",
    "ptb": "ptb",
    "lm1b": "lm1b",
    "lambada": "lambada",
    "scientific_papers/pubmed": "scientific_papers",
}
"""What the field undoes before it scores these sets of the Hub."""


@dataclass(frozen=True)
class TextOptions:
    """How text becomes rows."""

    packing: Packing | None = None
    """How documents become rows; by default as the run did it."""
    detokeniser: Detokeniser | None = None
    """What is undone first; by default what the field does for sets of the Hub, and none for files."""


AS_THE_RUN = TextOptions()


@dataclass(frozen=True)
class Fingerprint:
    """Everything that two figures must share to be comparable."""

    sha256: str
    """Of all held-out tokens."""
    sequences: int
    tokens: int
    length: int
    packing: str | None
    tokenizer: str | None
    detokeniser: str | None


@dataclass(frozen=True)
class HeldOut:
    """Sequences with what is known about them."""

    name: str
    rows: Tensor
    vocab_size: int
    fingerprint: Fingerprint
    decode: Decoder
    draw_rows: Callable[[Tensor, Generator], tuple[Tokens, Flags | None]] | None = None
    """Draws rows by index with their given positions; None if no positions are given."""
    entropy: float | None = None
    """The exact entropy in nats per token, where known."""

    def draw(self, count: int | None, generator: Generator) -> tuple[Tokens, Flags | None]:
        """At most `count` rows, evenly spread over all (all of them for None), and their given positions."""
        total = len(self.rows)
        if count is not None and count < 1:
            raise ValueError(f"the number of sequences must be at least 1, got {count}")
        wanted = total if count is None else min(count, total)
        index = torch.arange(wanted) * total // wanted
        return (take(self.rows, index), None) if self.draw_rows is None else self.draw_rows(index, generator)

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of text."""
        return self.decode.tokenizer

    def characters(self, rows: Tokens) -> int | None:
        """How many characters the rows spell, ends of documents left out; None where data is not text."""
        if self.tokenizer is None:
            return None
        end = self.tokenizer.end_of_sequence
        return sum(len(self.tokenizer.decode([token for token in row if token != end])) for row in rows.tolist())


def held_out(run: Run, source: str | None = None, reading: TextOptions = AS_THE_RUN) -> HeldOut:
    """What the run held out, or another source in the run's own tokens; of its training text never more than that."""
    own = run.source
    if source is None:
        return _own(run, own, reading)
    if own is not None and _names(source, own):
        data = _loaded(run, own)
        if _is_unchanged(run, data):
            return _of_dataset(data, own)
    if (own is None or own.is_text) and not _is_kind(source):
        return _text_for(run, source, reading)
    found = _source(own, source)
    return _of_dataset(_loaded(run, found), found)


def _own(run: Run, own: Source | None, reading: TextOptions) -> HeldOut:
    """What the run held out, or the slice of it that came with the model."""
    if own is None:
        raise ValueError(f"{run.name} does not say what it was trained on; name the data with --data")
    piece = run.folder / SLICE
    try:
        data = _loaded(run, own)
        if _is_unchanged(run, data):
            return _of_dataset(data, own)
        raise ValueError(
            f"{data.name} here is not the data that {run.name} was trained on (its fingerprint is "
            f"{data.fingerprint[:12]}, not {str(run.model.about.fingerprint)[:12]}); name it with --data to score it "
            "as other data"
        )
    except ValueError:
        if not piece.is_file():
            raise
    return replace(_text_for(run, str(piece), reading), name=f"{run.model.about.data or own.kind}, bundled slice")


def _loaded(run: Run, source: Source) -> Dataset:
    """The data; refused before it is read or generated where its outline says that the model cannot read it."""
    _check_suits(run, source.outline())
    data = source.load()
    _check_suits(run, data.outline)
    return data


def _check_suits(run: Run, data: Outline) -> None:
    known = run.model.process.vocab_size
    if data.vocab_size not in (None, known):
        raise ValueError(f"{data.name} has {data.vocab_size} tokens, but {run.name} was trained on {known}")
    if data.length is not None and data.length > run.length:
        raise ValueError(f"a row of {data.name} has {data.length} tokens, but {run.name} reads at most {run.length}")


def _is_unchanged(run: Run, data: Dataset) -> bool:
    """Whether this is the data that the run was trained on, as far as it says."""
    return run.model.about.fingerprint in (None, data.fingerprint)


def _names(source: str, own: Source) -> bool:
    """Whether a source is the run's own by its path or its kind."""
    path = getattr(own, "path", None)
    return source == own.kind if _is_kind(source) else path is not None and _same(source, path)


def _is_kind(source: str) -> bool:
    """Whether this names a kind of data that needs no path."""
    return source in SOURCES and not SOURCES[source].is_text


def _source(own: Source | None, source: str) -> Source:
    """The run's own source, one of another kind by name, or the same kind from another place."""
    if _is_kind(source):
        return own if own is not None and own.kind == source else SOURCES.parse(source)
    assert own is not None
    return own.at(source)


def text_rows(
    source: str, tokenizer: Tokenizer, length: int, reading: TextOptions = AS_THE_RUN, cache: Path | None = None
) -> HeldOut:
    """The held-out part of a folder or Hub data set, or the whole of a file, in rows of `length` tokens."""
    directory, packing = cache or default_cache(), reading.packing or "wrap"
    check_packing(packing, length, tokenizer.end_of_sequence)
    title = f"the text {source}"
    if is_hub(source):
        corpus = hub_corpus(source, "valid", title, directory, None)
    else:
        files = text_files(source, HUB)
        splits = own_splits(files)
        corpus = splits[1] if splits is not None else corpus_of(files, title)
    usual = DETOKENISERS.get(source, "none")
    detokeniser: Detokeniser = usual if reading.detokeniser is None else reading.detokeniser
    corpus = detokenised(corpus, detokeniser)
    key = digest("held out", corpus.key, tokenizer.identity, packing, length)
    rows = cached_rows(directory, key, length, partial(packed, corpus, tokenizer, packing, length))
    name = source if source in HUB else Path(source).name
    return _described(name, rows, tokenizer.vocab_size, text(tokenizer), packing, detokeniser)


def _same(first: str, second: str) -> bool:
    return first == second or Path(first).resolve() == Path(second).resolve()


def _text_for(run: Run, source: str, reading: TextOptions) -> HeldOut:
    if run.tokenizer is None:
        raise ValueError(f"{run.name} carries no tokenizer, so it cannot read the text {source}")
    packing = reading.packing or getattr(run.source, "packing", None)
    return text_rows(source, run.tokenizer, run.length, replace(reading, packing=packing))


def _of_dataset(data: Dataset, source: Source) -> HeldOut:
    how = (source.packing, source.detokeniser) if isinstance(source, TextSource) else (None, None)
    found = _described(data.name, data.valid, data.vocab_size, data.decode, *how)
    return replace(found, draw_rows=partial(data.draw, "valid"), entropy=data.entropy)


def _described(
    name: str, rows: Tensor, vocab_size: int, decode: Decoder, packing: str | None, detokeniser: str | None
) -> HeldOut:
    tokenizer, described = decode.tokenizer, None
    if tokenizer is not None:
        described = f"{type(tokenizer).__name__.lower()}, {tokenizer.vocab_size:,} ids, {tokenizer.identity[:8]}"
    content = hashlib.sha256(repr(tuple(rows.shape)).encode())
    for start in range(0, len(rows), CHUNK):
        content.update(rows[start : start + CHUNK].numpy().astype(np.int32).tobytes())
    fingerprint = Fingerprint(
        content.hexdigest(), len(rows), rows.numel(), rows.shape[1], packing, described, detokeniser
    )
    return HeldOut(name, rows, vocab_size, fingerprint, decode)
