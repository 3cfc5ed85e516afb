r"""A tokenizer is a map from text to ids 0..K-1 and a map back, and nothing else.

    characters        the sorted alphabet of the training text; decode(encode(s)) = s
    bytes             UTF-8, 256 ids; decode(encode(s)) = s
    bpe:N             a byte-level BPE of N tokens trained on the training text; decode(encode(s)) = s
    a file or folder  tokenizer.json, GPT-2's vocab.json + merges.txt, BERT's vocab.txt
    a Hub name        what `tokenizers.Tokenizer.from_pretrained` finds

No special token is ever added by `encode`; packing places the end of sequence, for which the first two kinds have one
id more where the training text is of several documents.  Every tokenizer is one JSON text that a
checkpoint can carry.  Only the last three kinds need the extra `text`.
"""

import hashlib
import json
import re
import sys
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenloom.support.extras import optional
from tokenloom.support.files import write_text

Ids = npt.NDArray[np.int32]

END_OF_TEXT = "<|endoftext|>"
ENDS = (END_OF_TEXT, "</s>", "<eos>", "<|end_of_text|>", "[SEP]")
STARTS = {"</s>": "<s>", "<eos>": "<bos>", "[SEP]": "[CLS]"}
PADDINGS = ("[PAD]", "<pad>")
PIECE = 1 << 20


class Tokenizer(ABC):
    """Text to ids and back."""

    vocab_size: int
    end_of_sequence: int | None
    start_of_sequence: int | None = None  # the token that opens a row, if the vocabulary has one
    padding: int | None = None  # the token that fills a row, if the vocabulary has one

    @abstractmethod
    def encode_batch(self, texts: Sequence[str], first: int = 1) -> list[Ids]:
        """Return the ids of every text; errors count the texts from `first`."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of some ids."""

    @abstractmethod
    def to_json(self) -> str:
        """Return the whole tokenizer as JSON, for `tokenizer_from_json`."""

    def encode(self, text: str) -> list[int]:
        """Return the ids of one text."""
        ids: list[int] = self.encode_batch([text])[0].tolist()
        return ids

    def until_end(self, ids: Sequence[int]) -> Sequence[int]:
        """Return ids up to the first end of sequence, without the special ones that they begin with."""
        special = (self.end_of_sequence, self.start_of_sequence, self.padding)
        begin = next((place for place, token in enumerate(ids) if token not in special), len(ids))
        ends = (place for place in range(begin, len(ids)) if ids[place] == self.end_of_sequence)
        return ids[begin : next(ends, len(ids))]

    @property
    def identity(self) -> str:
        """A checksum, equal for equal tokenizers."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the JSON that `load_tokenizer` reads."""
        write_text(path, self.to_json())


def _check_ids(ids: Sequence[int], vocab_size: int) -> None:
    """Raise unless these are ids of a tokenizer; a model may have more tokens than its tokenizer."""
    for index in ids:
        if not 0 <= index < vocab_size:
            raise ValueError(f"the tokenizer has the tokens 0..{vocab_size - 1}, got {index}, which stands for no text")


class Characters(Tokenizer):
    """One id per character of the alphabet, in its order, and one more for the end of a document if `ends`."""

    def __init__(self, alphabet: str, ends: bool = False) -> None:
        if not alphabet or list(alphabet) != sorted(set(alphabet)):
            raise ValueError(f"an alphabet is a sorted string of different characters, got {alphabet!r}")
        self.alphabet, self.vocab_size = alphabet, len(alphabet) + ends
        self.end_of_sequence = len(alphabet) if ends else None
        points = [ord(character) for character in alphabet]
        self._table = np.full(points[-1] + 2, -1, dtype=np.int32)  # the last entry stands for everything beyond
        self._table[points] = np.arange(len(points), dtype=np.int32)

    def encode_batch(self, texts: Sequence[str], first: int = 1) -> list[Ids]:
        return [self._encode(text, number) for number, text in enumerate(texts, first)]

    def _encode(self, text: str, number: int) -> Ids:
        points = np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype="<u4")
        ids: Ids = self._table[np.minimum(points, len(self._table) - 1)]
        if len(ids) and ids.min() < 0:
            place = int(ids.argmin())
            around = text[max(0, place - 15) : place + 15]
            raise ValueError(
                f"the character {text[place]!r} (U+{ord(text[place]):04X}) at position {place} of document {number} "
                f"(near {around!r}) is not in the alphabet of {len(self.alphabet)} characters; leave it out of a "
                "prompt, drop it from data (train --data.unknown drop, evaluate --unknown drop), or train with the "
                "tokenizer bytes, which knows all"
            )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        _check_ids(ids, self.vocab_size)
        return "".join(END_OF_TEXT if index == self.end_of_sequence else self.alphabet[index] for index in ids)

    def to_json(self) -> str:
        ends = {} if self.end_of_sequence is None else {"ends": True}
        return json.dumps({"kind": "characters", "alphabet": self.alphabet, **ends})


class Bytes(Tokenizer):
    """The bytes of UTF-8, and 256 for the end of a document if `ends`; what is not UTF-8 decodes to a replacement."""

    def __init__(self, ends: bool = False) -> None:
        self.vocab_size = 256 + ends
        self.end_of_sequence = 256 if ends else None

    def encode_batch(self, texts: Sequence[str], first: int = 1) -> list[Ids]:
        return [np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        _check_ids(ids, self.vocab_size)
        parts = (END_OF_TEXT.encode() if index == self.end_of_sequence else bytes([index]) for index in ids)
        return b"".join(parts).decode(errors="replace")

    def to_json(self) -> str:
        return json.dumps({"kind": "bytes"} | ({} if self.end_of_sequence is None else {"ends": True}))


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Turn an error of the library `tokenizers` into a sentence; a panic of it is not an `Exception`."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError):
            raise
        raise ValueError(f"{what}: {' '.join(str(error).split())[:200]}") from error


class Subwords(Tokenizer):
    """A tokenizer of the library `tokenizers`, from the text of its tokenizer.json."""

    def __init__(self, serialized: str, framed: bool = False) -> None:
        library = optional("tokenizers", "text")
        parts = json.loads(serialized)
        _check_charsmaps(parts)
        with in_words("this is not a tokenizer.json of the library tokenizers"):
            self.backend = library.Tokenizer.from_str(serialized)
        self.backend.no_truncation()
        self.backend.no_padding()
        vocabulary: dict[str, int] = self.backend.get_vocab()
        if not vocabulary:
            raise ValueError("this tokenizer has no token")
        self.vocab_size = max(vocabulary.values()) + 1
        if self.vocab_size > 10 * len(vocabulary) + 1000:  # the library writes down every id that is left out
            raise ValueError(
                f"this tokenizer has {len(vocabulary)} tokens and the id {self.vocab_size - 1}; number them from 0 on"
            )
        self.framed = framed
        # A network that frames a sequence puts both ends around it itself, so no token of the sequence is an end.
        end = next((token for token in ENDS if token in vocabulary and not framed), None)
        self.end_of_sequence = None if end is None else vocabulary[end]
        self.start_of_sequence = vocabulary.get(STARTS.get(end or "", ""))
        self.padding = next((vocabulary[token] for token in PADDINGS if token in vocabulary), None)
        rule = parts.get("pre_tokenizer") or {}
        plain = rule.get("type") == "ByteLevel" and not (parts.get("normalizer") or rule.get("add_prefix_space"))
        self._piece = PIECE if plain or rule.get("type") == "BertPreTokenizer" else sys.maxsize

    def encode_batch(self, texts: Sequence[str], first: int = 1) -> list[Ids]:
        pieces = [list(cut_at_spaces(text, self._piece)) for text in texts]
        with in_words("the tokenizer cannot read this text"):
            flat = self.backend.encode_batch_fast([piece for own in pieces for piece in own], add_special_tokens=False)
        ids = (np.array(encoding.ids, dtype=np.int32) for encoding in flat)
        return [np.concatenate([next(ids) for _ in own]) for own in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        with in_words("the tokenizer cannot write these tokens"):
            text: str = self.backend.decode(list(ids), skip_special_tokens=False)
        return text

    def to_json(self) -> str:
        framed = {"framed": True} if self.framed else {}
        return json.dumps({"kind": "subwords", "tokenizer": json.loads(self.backend.to_str()), **framed})


def _check_charsmaps(part: Any) -> None:
    """Raise unless every map of characters is as long as it says: the library allocates first, and aborts."""
    for item in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _check_charsmaps(item)
    if isinstance(part, dict) and isinstance(text := part.get("precompiled_charsmap"), str):
        try:
            content = b64decode(text, validate=True)
        except ValueError as error:
            raise ValueError(f"the precompiled_charsmap of this tokenizer is not base64: {error}") from error
        size = int.from_bytes(content[:4], "little")
        if size > len(content):
            raise ValueError(
                f"the precompiled_charsmap of this tokenizer claims a table of {size} bytes and has {len(content)}; "
                "it is damaged, get the file again"
            )


def cut_at_spaces(text: str, size: int = PIECE) -> Iterator[str]:
    """Yield pieces of at least `size` characters that the rules of GPT-2 and BERT never join."""
    # GPT-2 splits a run of white space before its last character, so a cut there changes no token.
    start, boundary = 0, re.compile(r"[ \n](?=\S)")
    while len(text) > start + size and (found := boundary.search(text, start + size)) is not None:
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]
