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

from collections.abc import Iterable, Iterator, Sized
from typing import Literal, TypeVar, get_args

import numpy as np

from tokenloom.data.documents import Corpus
from tokenloom.models.tokenizer import Ids, Tokenizer
from tokenloom.support.words import nearest

Packing = Literal["wrap", "sentences", "pad"]
Item = TypeVar("Item", bound=Sized)
BLOCK = 1 << 20  # tokens that are gathered before rows are cut
BATCH = 1 << 22  # characters that are gathered before they are tokenised: a large text is never in memory as a whole


def check_packing(packing: str, length: int) -> None:
    """Raise unless the packing is known and possible with this length."""
    if packing not in get_args(Packing):
        raise ValueError(f"unknown packing {packing}; {nearest(packing, get_args(Packing))}")
    shortest = 3 if packing == "sentences" else 1
    if length < shortest:
        raise ValueError(f"the packing {packing} needs rows of at least {shortest} tokens, got a length of {length}")


def encode_documents(documents: Iterable[str], tokenizer: Tokenizer, name: str) -> Iterator[Ids]:
    """Yield the ids of each document, tokenising several documents at a time."""
    first = 1
    for batch in _gathered(documents, BATCH):
        try:
            yield from tokenizer.encode_batch(batch, first)
        except ValueError as error:
            raise ValueError(f"{name} cannot be tokenised: {error}") from error
        first += len(batch)


def _gathered(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists, each as soon as its total length reaches `size`."""
    found: list[Item] = []
    total = 0
    for item in items:
        found.append(item)
        total += len(item)
        if total >= size:
            yield found
            found, total = [], 0
    yield found


def pack(corpus: Corpus, tokenizer: Tokenizer, packing: str, length: int) -> Iterator[Ids]:
    """Yield blocks of rows, [rows, length], in the order of the documents."""
    documents = encode_documents(corpus.read(), tokenizer, corpus.name)
    end, start, padding = tokenizer.end_of_sequence, tokenizer.start_of_sequence, tokenizer.padding
    if packing != "wrap" and end is None:
        raise ValueError(f"the packing {packing} needs an end of sequence; use wrap, or a tokenizer such as bpe:4096")
    closing = np.array([] if end is None else [end], dtype=np.int32)
    if packing == "pad":
        opening = np.array([] if start is None else [start], dtype=np.int32)
        filling = np.full(length, end if padding is None else padding, dtype=np.int32)
        for document in documents:
            yield np.concatenate([opening, document, closing, filling])[None, :length]
    elif packing == "sentences":
        frame = (closing[0] if start is None else start, closing[0])
        for pieces in _cut(documents, length - 2, closing, corpus.name):
            yield np.pad(pieces, ((0, 0), (1, 1)), constant_values=((0, 0), frame))
    else:
        yield from _cut(documents, length, closing, corpus.name)


def _cut(documents: Iterable[Ids], length: int, closing: Ids, name: str) -> Iterator[Ids]:
    """Yield the stream in pieces of `length`, several at a time; the last one is dropped unless it is full."""
    rest, total = closing[:0], 0
    for block in _gathered(documents, BLOCK):
        stream = np.concatenate([rest, *(part for document in block for part in (document, closing))])
        total += len(stream) - len(rest)
        full = len(stream) // length * length
        yield stream[:full].reshape(-1, length)
        rest = stream[full:]
    if total < length:
        raise ValueError(f"{name} has {total} tokens, but one row needs {length}; give more text or a shorter length")
