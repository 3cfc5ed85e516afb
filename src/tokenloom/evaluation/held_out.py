"""Held-out sequences a model is measured on, with a fingerprint that says what exactly they are.

A source is nothing (the run's own validation split), a kind of data such as markov or digits, or a path or Hub name:
text is tokenised with the run's own tokenizer, packed as the run packs and cut to the network's length.

A run's own data is what has the fingerprint that the run recorded, not what has its name.  Where it is absent or
another, the slice of text that came with the model (`held_out.txt` beside its weights) stands for it.
"""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Generator

from tokenloom.data.base import SOURCES, Dataset, Outline, Source, trained_on
from tokenloom.data.decoder import text
from tokenloom.data.detokenise import Detokeniser
from tokenloom.data.documents import HUB, text_files
from tokenloom.data.packing import Packing, check_packing
from tokenloom.data.text import (
    TextSource,
    Unknown,
    corpus_at,
    detokenised,
    is_hub,
    own_splits,
    token_rows,
    without_unknown,
)
from tokenloom.models.opening import Run
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.support.files import default_cache
from tokenloom.types import Flags, Tokens


@dataclass(frozen=True)
class TextOptions:
    """Options that decide how text becomes rows."""

    packing: Packing | None = None
    """Way in which documents become rows; by default that of the run."""
    detokeniser: Detokeniser | None = None
    """Tokenisation that is undone first; by default as the field does for sets of the Hub, and none for files."""
    unknown: Unknown = "error"
    """Characters that the tokenizer does not know: an error, or dropped from the text."""


@dataclass(frozen=True)
class Fingerprint:
    """Everything that two figures must share to be comparable; `sha256` is that of all held-out tokens."""

    sha256: str
    sequences: int
    tokens: int
    length: int
    packing: str | None
    tokenizer: str | None
    detokeniser: str | None


@dataclass(frozen=True)
class HeldOut:
    """The validation split of some data, and what exactly it is."""

    data: Dataset
    fingerprint: Fingerprint

    def draw(self, count: int | None, generator: Generator) -> tuple[Tokens, Flags | None]:
        """Return at most `count` rows, evenly spread over all (all of them for None), and their given positions."""
        total = len(self.data.valid)
        if count is not None and count < 1:
            raise ValueError(f"the number of sequences must be at least 1, got {count}")
        wanted = total if count is None else min(count, total)
        return self.data.draw("valid", torch.arange(wanted) * total // wanted, generator)


def held_out(run: Run, source: str | None = None, reading: TextOptions = TextOptions()) -> HeldOut:  # noqa: B008
    """Return what the run held out, or another source in its own tokens; of its training text only what it held out."""
    own = trained_on(run.model)
    if source is None:
        return _own(run, own, reading)
    if source in SOURCES and not SOURCES[source].is_text:
        found = own if own is not None and own.kind == source else SOURCES.parse(source)
        return _loaded(run, found)
    path = getattr(own, "path", None)
    if own is not None and path is not None and Path(source).resolve() == Path(path).resolve():
        same = _loaded(run, own)
        if _is_unchanged(run, same):
            return same
    return _text_for(run, own, source, reading) if own is None or own.is_text else _loaded(run, own.at(source))


def _own(run: Run, own: Source | None, reading: TextOptions) -> HeldOut:
    """Return what the run held out, or the slice of it that came with the model."""
    if own is None:
        raise ValueError(f"{run.name} does not say what it was trained on; name the data with --data")
    piece = run.folder / "held_out.txt"
    try:
        found = _loaded(run, own)
        if _is_unchanged(run, found):
            return found
        marks = (found.data.fingerprint[:12], str(run.model.about.fingerprint)[:12])
        raise ValueError(
            f"{found.data.name} here is not the data that {run.name} was trained on (its fingerprint is {marks[0]}, "
            f"not {marks[1]}); name it with --data to score it as other data"
        )
    except ValueError:
        if not piece.is_file():
            raise
    found = _text_for(run, own, str(piece), reading)
    return replace(found, data=replace(found.data, name=f"{run.model.about.data or own.kind}, bundled slice"))


def _loaded(run: Run, source: Source) -> HeldOut:
    """Load the data, unless its outline says, before it is read or generated, that the model cannot read it."""
    _check_suits(run, source.outline())
    data = source.load()
    _check_suits(run, data.outline)
    how = (source.packing, source.detokeniser) if isinstance(source, TextSource) else (None, None)
    return _marked(data, *how)


def _check_suits(run: Run, data: Outline) -> None:
    known = run.model.process.vocab_size
    if data.vocab_size not in (None, known):
        raise ValueError(f"{data.name} has {data.vocab_size} tokens, but {run.name} was trained on {known}")
    if data.length is not None and data.length > run.length:
        raise ValueError(f"a row of {data.name} has {data.length} tokens, but {run.name} reads at most {run.length}")


def _is_unchanged(run: Run, found: HeldOut) -> bool:
    """True if this is the data that the run was trained on, or if the run records no fingerprint."""
    return run.model.about.fingerprint in (None, found.data.fingerprint)


def _text_for(run: Run, own: Source | None, source: str, reading: TextOptions) -> HeldOut:
    if run.model.tokenizer is None:
        raise ValueError(f"{run.name} carries no tokenizer, so it cannot read the text {source}")
    packing = reading.packing or getattr(own, "packing", None)
    return text_rows(source, run.model.tokenizer, run.length, replace(reading, packing=packing))


def text_rows(source: str, tokenizer: Tokenizer, length: int, reading: TextOptions) -> HeldOut:
    """Return the held-out part of a folder or Hub data set, or the whole of a file, in rows of `length` tokens."""
    directory, packing = default_cache(), reading.packing or "wrap"
    check_packing(packing, length)
    splits = None if is_hub(source) else own_splits(text_files(source))
    corpus = corpus_at(source, "valid", f"the text {source}", directory) if splits is None else splits[1]
    detokeniser = reading.detokeniser or (HUB[source].detokeniser if is_hub(source) else "none")
    corpus, notes = detokenised(corpus, detokeniser), list[str]()
    if reading.unknown == "drop":
        corpus = without_unknown(corpus, tokenizer, notes)
    rows, key = token_rows(corpus, tokenizer, packing, length, directory)
    name = source if source in HUB else Path(source).name
    data = Dataset(name, tokenizer.vocab_size, rows, rows, key, text(tokenizer), notes=tuple(notes))
    return _marked(data, packing, detokeniser)


def _marked(data: Dataset, packing: str | None, detokeniser: str | None) -> HeldOut:
    """Compute the fingerprint of the validation split."""
    rows, tokenizer, described = data.valid, data.tokenizer, None
    if tokenizer is not None:
        described = f"{type(tokenizer).__name__.lower()}, {tokenizer.vocab_size:,} ids, {tokenizer.identity[:8]}"
    content = hashlib.sha256(repr(tuple(rows.shape)).encode())
    for part in torch.split(rows, 1 << 16):  # a table may be larger than the memory
        content.update(part.numpy().astype(np.int32).tobytes())
    about = (len(rows), rows.numel(), rows.shape[1], packing, described, detokeniser)
    return HeldOut(data, Fingerprint(content.hexdigest(), *about))
