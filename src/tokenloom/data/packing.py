r"""Documents d_1, d_2, ... of any length become rows of exactly L tokens.  With E the end of sequence:

    wrap        the stream d_1 E d_2 E ... is cut every L tokens (without E where the tokenizer has none: d_1 d_2 ...)
    sentences   the stream d_1 E d_2 E ... is cut every L - 2 tokens, and each piece c becomes the row S c E
    pad         each document is one row: S d E, at most L tokens of it, then P up to L

where S, a start, and P, the padding, are E unless the vocabulary has tokens for them (BERT: [CLS], [SEP] and [PAD]);
`pad` goes without a start that is E.

`wrap` and `sentences` drop only the last piece of the stream, where it is not full; `pad` drops what a document has
beyond L.  `sentences` is the sentence packing of MDLM with GPT-2's tokenizer, where one token is both ends: a row
starts and ends with E, may start inside a document and may hold several.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import numpy as np

from tokenloom.models.tokenizer import Ids, Tokenizer
from tokenloom.support.checks import nearest

Packing = Literal["wrap", "sentences", "pad"]
BLOCK = 1 << 20
"""Tokens that are gathered before rows are cut."""
BATCH = 1 << 22
"""Characters that are gathered before they are tokenised."""


def check_packing(packing: str, length: int, end: int | None) -> None:
    """A known packing that is possible with this length and this tokenizer."""
    if packing not in get_args(Packing):
        raise ValueError(f"unknown packing {packing}; {nearest(packing, get_args(Packing))}")
    shortest = 3 if packing == "sentences" else 1
    if length < shortest:
        raise ValueError(f"the packing {packing} needs rows of at least {shortest} tokens, got a length of {length}")
    if packing != "wrap" and end is None:
        raise ValueError(
            f"the packing {packing} needs a tokenizer with an end-of-sequence token, and this one has none; "
            "use the packing wrap, or a tokenizer such as bpe:4096"
        )


def encode_documents(documents: Iterable[str], tokenizer: Tokenizer, name: str) -> Iterator[Ids]:
    """The ids of each document, some documents at a time: a large text is never in memory as a whole."""
    first = 1
    for batch in _batches(documents):
        try:
            yield from tokenizer.encode_batch(batch, first)
        except ValueError as error:
            raise ValueError(f"{name} cannot be tokenised: {error}") from error
        first += len(batch)


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document)
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def pack(
    documents: Iterable[Ids],
    packing: str,
    length: int,
    end: int | None,
    name: str,
    start: int | None = None,
    padding: int | None = None,
) -> Iterator[Ids]:
    """Blocks of rows, [rows, length], in the order of the documents; `name` is what errors call the text."""
    check_packing(packing, length, end)
    if packing == "pad" and end is not None:
        yield from _pad(documents, length, end, start, end if padding is None else padding)
        return
    framed = packing == "sentences"
    for pieces in _cut(documents, length - 2 if framed else length, end, name):
        if framed and end is not None:
            frame = (end if start is None else start, end)
            yield np.pad(pieces, ((0, 0), (1, 1)), constant_values=((0, 0), frame))
        else:
            yield pieces


def _pad(documents: Iterable[Ids], length: int, end: int, start: int | None, padding: int) -> Iterator[Ids]:
    opening = np.array([] if start is None else [start], dtype=np.int32)
    for document in documents:
        framed = np.concatenate([opening, document, np.array([end], dtype=np.int32)])[:length]
        row = np.full((1, length), padding, dtype=np.int32)
        row[0, : len(framed)] = framed
        yield row


def _cut(documents: Iterable[Ids], length: int, end: int | None, name: str) -> Iterator[Ids]:
    """The stream in pieces of `length`, some of them at a time; the last one is dropped unless it is full."""
    closing = np.array([] if end is None else [end], dtype=np.int32)
    waiting: list[Ids] = []
    count, total, produced = 0, 0, 0
    for document in documents:
        waiting += [document, closing]
        count += len(document) + len(closing)
        total += len(document) + len(closing)
        if count >= max(BLOCK, length):
            stream = np.concatenate(waiting)
            full = count // length * length
            yield stream[:full].reshape(-1, length)
            produced, waiting, count = produced + full, [stream[full:]], count - full
    if full := count // length * length:
        yield np.concatenate(waiting)[:full].reshape(-1, length)
    elif not produced:
        raise ValueError(f"{name} has {total} tokens, but one row needs {length}; give more text or a shorter length")
