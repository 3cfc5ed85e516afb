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
from tokenloom.data.packing import Packing, check_packing
from tokenloom.data.text import HUB, RowDecoder, _files, _from_files, _hub, _is_hub, _own_splits, _rows
from tokenloom.data.token_cache import cached_rows, default_cache, digest
from tokenloom.data.tokenizer import Tokenizer
from tokenloom.evaluation.runs import Run
from tokenloom.model import architecture
from tokenloom.training.build import build_data
from tokenloom.training.config import DataConfig
from tokenloom.types import Flags, Tokens

CHUNK = 1 << 16
KINDS: tuple[str, ...] = get_args(get_type_hints(DataConfig)["kind"])


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
    draw_fixed: Callable[[Tokens, Generator], Flags] | None = None
    entropy: float | None = None
    """Exact, in nats a token, where known."""

    def spread(self, count: int | None) -> Tokens:
        """At most `count` rows, evenly spread over all; all of them for None."""
        total = len(self.rows)
        if count is not None and count < 1:
            raise ValueError(f"rows must be at least 1, got {count}")
        wanted = total if count is None else min(count, total)
        return take(self.rows, torch.arange(wanted) * total // wanted)

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


def held_out(run: Run, source: str | None = None, packing: Packing | None = None) -> HeldOut:
    """What the run held out, or another source in the run's own tokens."""
    config = run.data
    if source is None and config is None:
        raise ValueError(f"{run.name} does not say what it was trained on; name the data with --data")
    kind = "text" if config is None else config.kind
    if source in KINDS and source != "text":
        config = config if config is not None and config.kind == source else DataConfig(source)  # type: ignore[arg-type]
    elif source is not None and kind == "text":
        return _text_for(run, source, packing)
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
    source: str, tokenizer: Tokenizer, length: int, packing: Packing = "wrap", cache: Path | None = None
) -> HeldOut:
    """The held-out part of a folder or Hub data set, or the whole of a file, in rows of `length` tokens."""
    directory = cache or default_cache()
    check_packing(packing, length, tokenizer.end_of_sequence)
    title = f"the text {source}"
    if _is_hub(source):
        corpus = _hub(source, "valid", title, directory, None)
    else:
        files = _files(source)
        splits = _own_splits(files)
        corpus = splits[1] if splits is not None else _from_files(files, title)
    key = digest("held out", corpus.key, tokenizer.identity, packing, length)
    rows = cached_rows(directory, key, length, partial(_rows, corpus, tokenizer, packing, length))
    name = source if source in HUB else Path(source).name
    return _described(name, rows, tokenizer.vocab_size, RowDecoder(tokenizer), packing, "none")


def _text_for(run: Run, source: str, packing: Packing | None) -> HeldOut:
    if run.tokenizer is None:
        raise ValueError(f"{run.name} carries no tokenizer, so it cannot read the text {source}")
    network = architecture(run.model.network)
    assert network is not None  # a saved model has one of ours
    usual: Packing = "wrap" if run.data is None else run.data.packing
    return text_rows(source, run.tokenizer, network.config.length, packing or usual)


def _of_dataset(data: Dataset, config: DataConfig) -> HeldOut:
    packing = config.packing if config.kind == "text" else None
    found = _described(data.name, data.valid, data.vocab_size, data.decode, packing, "none" if packing else None)
    return replace(found, draw_fixed=data.draw_fixed, entropy=data.entropy)


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
