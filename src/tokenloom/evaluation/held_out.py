"""Held-out sequences a model is measured on, with a fingerprint that says what exactly they are.

A source is nothing (the run's own validation split), a kind of data (markov, sudoku, digits), or a path or Hub name:
text is tokenised with the run's own tokenizer, packed as the run packs and cut to the network's length.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import torch
from torch import Generator, Tensor

from tokenloom.data.base import Dataset, Decode, take
from tokenloom.data.detokenise import Detokeniser
from tokenloom.data.documents import corpus_of, text_files
from tokenloom.data.hub_text import HUB, hub_corpus
from tokenloom.data.packing import Packing, check_packing
from tokenloom.data.text import RowDecoder, detokenised, is_hub, own_splits, packed
from tokenloom.data.token_cache import cached_rows, default_cache, digest
from tokenloom.data.tokenizer import Tokenizer
from tokenloom.evaluation.runs import Run
from tokenloom.training.build import build_data
from tokenloom.training.config import DataConfig
from tokenloom.types import Flags, Tokens

CHUNK = 1 << 16
KINDS: tuple[str, ...] = get_args(get_type_hints(DataConfig)["kind"])


DETOKENISERS: dict[str, Detokeniser] = {
    "wikitext": "wikitext",
    "ptb": "ptb",
    "lm1b": "lm1b",
    "lambada": "lambada",
    "scientific_papers/pubmed": "scientific_papers",
}
"""What the field undoes before it scores these sets of the Hub."""


@dataclass(frozen=True)
class Reading:
    """How text becomes rows."""

    packing: Packing | None = None
    """How documents become rows; by default as the run did it."""
    detokeniser: Detokeniser | None = None
    """What is undone first; by default what the field does for sets of the Hub, and none for files."""


USUAL = Reading()


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
    decode: Decode
    draw_fixed: Callable[[Tokens, Flags | None, Generator], Flags] | None = None
    puzzles: Flags | None = None
    """Positions of every row that determine the others."""
    entropy: float | None = None
    """Exact, in nats a token, where known."""

    def draw(self, count: int | None, generator: Generator) -> tuple[Tokens, Flags | None]:
        """At most `count` rows, evenly spread over all (all of them for None), and their given positions."""
        total = len(self.rows)
        if count is not None and count < 1:
            raise ValueError(f"the number of sequences must be at least 1, got {count}")
        wanted = total if count is None else min(count, total)
        index = torch.arange(wanted) * total // wanted
        x_0 = take(self.rows, index)
        if self.draw_fixed is None:
            return x_0, None
        return x_0, self.draw_fixed(x_0, None if self.puzzles is None else self.puzzles[index], generator)

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of text."""
        return self.decode.tokenizer if isinstance(self.decode, RowDecoder) else None

    def characters(self, rows: Tokens) -> int | None:
        """How many characters the rows spell, ends of documents left out; None where data is no text."""
        if self.tokenizer is None:
            return None
        end = self.tokenizer.end_of_sequence
        return sum(len(self.tokenizer.decode([token for token in row if token != end])) for row in rows.tolist())


def held_out(run: Run, source: str | None = None, reading: Reading = USUAL) -> HeldOut:
    """What the run held out, or another source in the run's own tokens; of its training text never more than that."""
    config = run.data
    if source is not None and config is not None and config.path is not None and _same(source, config.path):
        source = None
    if source is None and config is None:
        raise ValueError(f"{run.name} does not say what it was trained on; name the data with --data")
    kind = "text" if config is None else config.kind
    if source in KINDS and source != "text":
        config = config if config is not None and config.kind == source else DataConfig(source)  # type: ignore[arg-type]
    elif source is not None and kind == "text":
        return _text_for(run, source, reading)
    elif source is not None:
        if kind == "markov":
            raise ValueError(f"{run.name} reads tokens of a markov chain, so its data is markov, got {source}")
        config = replace(config or DataConfig(), path=source)
    assert config is not None
    data = build_data(config)
    if data.vocab_size != run.model.process.vocab_size:
        raise ValueError(
            f"{data.name} has {data.vocab_size} tokens, but {run.name} was trained on {run.model.process.vocab_size}"
        )
    return _of_dataset(data, config)


def text_rows(
    source: str, tokenizer: Tokenizer, length: int, reading: Reading = USUAL, cache: Path | None = None
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
    return _described(name, rows, tokenizer.vocab_size, RowDecoder(tokenizer), packing, detokeniser)


def _same(first: str, second: str) -> bool:
    return first == second or Path(first).resolve() == Path(second).resolve()


def _text_for(run: Run, source: str, reading: Reading) -> HeldOut:
    if run.tokenizer is None:
        raise ValueError(f"{run.name} carries no tokenizer, so it cannot read the text {source}")
    packing = reading.packing or (None if run.data is None else run.data.packing)
    return text_rows(source, run.tokenizer, run.length, replace(reading, packing=packing))


def _of_dataset(data: Dataset, config: DataConfig) -> HeldOut:
    how = (config.packing, config.detokeniser) if config.kind == "text" else (None, None)
    found = _described(data.name, data.valid, data.vocab_size, data.decode, *how)
    puzzles = None if data.puzzles is None else data.puzzles[1]
    return replace(found, draw_fixed=data.draw_fixed, puzzles=puzzles, entropy=data.entropy)


def _described(
    name: str, rows: Tensor, vocab_size: int, decode: Decode, packing: str | None, detokeniser: str | None
) -> HeldOut:
    tokenizer = getattr(decode, "tokenizer", None)
    described = None
    if isinstance(tokenizer, Tokenizer):
        described = f"{type(tokenizer).__name__.lower()}, {tokenizer.vocab_size:,} ids, {tokenizer.identity[:8]}"
    content = hashlib.sha256(repr(tuple(rows.shape)).encode())
    for start in range(0, len(rows), CHUNK):
        content.update(rows[start : start + CHUNK].numpy().astype(np.int32).tobytes())
    fingerprint = Fingerprint(
        content.hexdigest(), len(rows), rows.numel(), rows.shape[1], packing, described, detokeniser
    )
    return HeldOut(name, rows, vocab_size, fingerprint, decode)
