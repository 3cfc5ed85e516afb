r"""A tokenizer is a map from text to ids 0..K-1 and a map back, and nothing else.

    characters        the sorted alphabet of the training text; decode(encode(s)) = s
    bytes             UTF-8, K = 256; decode(encode(s)) = s
    bpe:N             a byte-level BPE of N tokens trained on the training text; decode(encode(s)) = s
    a file or folder  tokenizer.json, GPT-2's vocab.json + merges.txt, BERT's vocab.txt
    a Hub name        what `tokenizers.Tokenizer.from_pretrained` finds

No special token is ever added by `encode`; packing places the end of sequence.  Every tokenizer is one JSON text that a
checkpoint can carry.  Only the last three kinds need the extra `text`.
"""

import difflib
import hashlib
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tokenloom.support.checks import nearest
from tokenloom.support.extras import optional
from tokenloom.support.files import write_text
from tokenloom.support.hub import hub_or_cache
from tokenloom.support.reading import parse_json, read_json, read_text

Ids = npt.NDArray[np.int32]

KINDS = ("characters", "bytes", "bpe:N")
HUB_EXAMPLES = ("gpt2", "bert-base-uncased")
END_OF_TEXT = "<|endoftext|>"
ENDS = (END_OF_TEXT, "</s>", "<eos>", "<|end_of_text|>", "[SEP]")
STARTS = {"</s>": "<s>", "<eos>": "<bos>", "[SEP]": "[CLS]"}
PADDINGS = ("[PAD]", "<pad>")
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECE = 1 << 20
SMALLEST_BPE = 257  # the bytes and the end of text


class Tokenizer(ABC):
    """Text to ids and back."""

    vocab_size: int
    end_of_sequence: int | None
    start_of_sequence: int | None = None
    """What opens a row, where the vocabulary has a token for it beside the end."""
    padding: int | None = None
    """What fills a row, likewise."""

    @abstractmethod
    def encode_batch(self, texts: Sequence[str], first: int = 1) -> list[Ids]:
        """The ids of every text; errors count the texts from `first`."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """The text of some ids."""

    @abstractmethod
    def to_json(self) -> str:
        """All of the tokenizer, for `tokenizer_from_json`."""

    def encode(self, text: str) -> list[int]:
        """The ids of one text."""
        ids: list[int] = self.encode_batch([text])[0].tolist()
        return ids

    @property
    def identity(self) -> str:
        """Equal for equal tokenizers."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the JSON that `load_tokenizer` reads."""
        write_text(path, self.to_json())


class Characters(Tokenizer):
    """One id per character of the alphabet, in its order."""

    end_of_sequence = None

    def __init__(self, alphabet: str) -> None:
        if not alphabet or list(alphabet) != sorted(set(alphabet)):
            raise ValueError(f"an alphabet is a sorted string of different characters, got {alphabet!r}")
        self.alphabet, self.vocab_size = alphabet, len(alphabet)
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
                f"(near {around!r}) is not in the alphabet of {self.vocab_size} characters; "
                "use the tokenizer bytes, or training text that has it"
            )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self.alphabet[index] for index in ids)

    def to_json(self) -> str:
        return json.dumps({"kind": "characters", "alphabet": self.alphabet})


class Bytes(Tokenizer):
    """The bytes of UTF-8; ids that are not UTF-8 decode to the replacement character."""

    vocab_size = 256
    end_of_sequence = None

    def encode_batch(self, texts: Sequence[str], first: int = 1) -> list[Ids]:
        return [np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int32) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode(errors="replace")

    def to_json(self) -> str:
        return json.dumps({"kind": "bytes"})


class Subwords(Tokenizer):
    """A tokenizer of the library `tokenizers`, from the text of its tokenizer.json.

    With `framed`, the network itself puts both ends around a sequence, so no token of the sequence is one.
    """

    def __init__(self, serialized: str, framed: bool = False) -> None:
        library = optional("tokenizers", "text")
        try:
            self._tokenizer = library.Tokenizer.from_str(serialized)
        except Exception as error:
            raise ValueError(f"this is not a tokenizer.json of the library tokenizers: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        vocabulary: dict[str, int] = self._tokenizer.get_vocab()
        if not vocabulary:
            raise ValueError("this tokenizer has no token")
        self.vocab_size = max(vocabulary.values()) + 1
        self.framed = framed
        end = next((token for token in ENDS if token in vocabulary and not framed), None)
        self.end_of_sequence = None if end is None else vocabulary[end]
        self.start_of_sequence = vocabulary.get(STARTS.get(end or "", ""))
        self.padding = next((vocabulary[token] for token in PADDINGS if token in vocabulary), None)
        parts = json.loads(serialized)
        rule = parts.get("pre_tokenizer") or {}
        plain = rule.get("type") == "ByteLevel" and not (parts.get("normalizer") or rule.get("add_prefix_space"))
        self._piece = PIECE if plain or rule.get("type") == "BertPreTokenizer" else sys.maxsize

    def encode_batch(self, texts: Sequence[str], first: int = 1) -> list[Ids]:
        pieces = [list(cut_at_spaces(text, self._piece)) for text in texts]
        flat = self._tokenizer.encode_batch_fast([piece for own in pieces for piece in own], add_special_tokens=False)
        ids = (np.array(encoding.ids, dtype=np.int32) for encoding in flat)
        return [np.concatenate([next(ids) for _ in own]) for own in pieces]

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False)
        return text

    def to_json(self) -> str:
        framed = {"framed": True} if self.framed else {}
        return json.dumps({"kind": "subwords", "tokenizer": json.loads(self._tokenizer.to_str()), **framed})


def with_special_token(tokenizer: Tokenizer, token: str) -> Tokenizer:
    """A subword tokenizer with one more token behind its own."""
    if not isinstance(tokenizer, Subwords):
        raise ValueError(f"only subword tokenizers take another token, got {type(tokenizer).__name__.lower()}")
    grown = optional("tokenizers", "text").Tokenizer.from_str(json.dumps(json.loads(tokenizer.to_json())["tokenizer"]))
    grown.add_special_tokens([token])
    return Subwords(grown.to_str())


def cut_at_spaces(text: str, size: int) -> Iterator[str]:
    """Pieces of at least `size` characters that the rules of GPT-2 and BERT never join.

    GPT-2 splits a run of white space before its last character, so a cut there changes no token.
    """
    start, boundary = 0, re.compile(r"[ \n](?=\S)")
    while len(text) > start + size and (found := boundary.search(text, start + size)) is not None:
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


def tokenizer_from_json(text: str) -> Tokenizer:
    """The inverse of `Tokenizer.to_json`; a plain tokenizer.json is accepted too."""
    stored = parse_json(text)
    kind = stored.get("kind") if isinstance(stored, dict) else None
    if kind == "characters" and isinstance(stored.get("alphabet"), str):
        return Characters(stored["alphabet"])
    if kind == "bytes":
        return Bytes()
    if kind == "subwords" or (isinstance(stored, dict) and "model" in stored):
        return Subwords(json.dumps(stored.get("tokenizer") if kind else stored), stored.get("framed") is True)
    raise ValueError(f"a stored tokenizer is of kind characters, bytes or subwords, got {kind!r}")


def load_tokenizer(path: Path) -> Tokenizer:
    """A saved tokenizer, a tokenizer.json, or the vocabulary files of GPT-2 or BERT in a folder."""
    if path.is_dir():
        return _from_folder(path)
    if not path.is_file():
        raise ValueError(f"there is no tokenizer file {path}")
    if path.suffix == ".txt":
        return _wordpiece(path)
    if path.name.endswith("vocab.json"):
        return _byte_pairs(path)
    try:
        return tokenizer_from_json(read_text(path))
    except ValueError as error:
        raise ValueError(f"{path} holds no tokenizer: {error}") from error


def _from_folder(folder: Path) -> Tokenizer:
    stored = read_json(folder / "config.json") if (folder / "config.json").is_file() else None
    if isinstance(stored, dict) and isinstance(stored.get("tokenizer"), dict) and "process" in stored:
        return tokenizer_from_json(json.dumps(stored["tokenizer"]))  # a model of ours carries its own
    for pattern in ("tokenizer.json", "*vocab.json", "*vocab.txt"):
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            raise ValueError(f"{folder} has several files {pattern}; give the path of one of them")
        if found:
            return _byte_pairs(found[0]) if pattern == "*vocab.json" else load_tokenizer(found[0])
    raise ValueError(f"{folder} has no tokenizer.json, no vocab.json with merges.txt and no vocab.txt")


def _byte_pairs(vocabulary: Path) -> Tokenizer:
    """GPT-2's two files."""
    merges = vocabulary.with_name(vocabulary.name.replace("vocab.json", "merges.txt"))
    if not merges.is_file():
        raise ValueError(f"{vocabulary} needs its merges beside it, but there is no {merges.name}")
    library = optional("tokenizers", "text")
    try:
        model = library.models.BPE.from_file(str(vocabulary), str(merges))
    except Exception as error:
        raise ValueError(f"{vocabulary} and {merges.name} are not the tokenizer of a GPT-2: {error}") from error
    return Subwords(_byte_level(library, model).to_str())


def _byte_level(library: Any, model: Any) -> Any:
    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    if tokenizer.token_to_id(END_OF_TEXT) is not None:
        tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


def _wordpiece(vocabulary: Path) -> Tokenizer:
    """BERT's vocabulary; it is an uncased one where no word has a capital letter."""
    words = read_text(vocabulary).splitlines()
    if "[UNK]" not in words:
        raise ValueError(f"{vocabulary} is not a vocabulary of BERT: it has no [UNK]")
    library = optional("tokenizers", "text")
    uncased = not any(word != word.lower() for word in words if not word.startswith("["))
    ids = {word: index for index, word in enumerate(words)}
    tokenizer = library.Tokenizer(library.models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = library.normalizers.BertNormalizer(lowercase=uncased)
    tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = library.decoders.WordPiece()
    tokenizer.add_special_tokens([word for word in BERT_SPECIAL if word in words])
    return Subwords(tokenizer.to_str())


def _train_byte_pairs(kind: str, texts: Iterable[str]) -> Tokenizer:
    size = kind.removeprefix("bpe:")
    if not size.isdecimal() or int(size) < SMALLEST_BPE:
        raise ValueError(f"bpe:N needs a whole number N of at least {SMALLEST_BPE} tokens, got {kind}")
    library = optional("tokenizers", "text")
    tokenizer = _byte_level(library, library.models.BPE())
    trainer = library.trainers.BpeTrainer(
        vocab_size=int(size),
        special_tokens=[END_OF_TEXT],
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((piece for text in texts for piece in cut_at_spaces(text, PIECE)), trainer)
    return Subwords(tokenizer.to_str())


def _from_hub(name: str) -> Tokenizer:
    library = optional("tokenizers", "text")
    try:
        with hub_or_cache():
            return Subwords(library.Tokenizer.from_pretrained(name).to_str())
    except Exception as error:
        hint = "" if name in HUB_EXAMPLES else f"; {nearest(name, HUB_EXAMPLES + KINDS)}"
        raise ValueError(
            f"the tokenizer {name} is not a local file and Tokenizer.from_pretrained could not get it from the Hub "
            f"({type(error).__name__}); give the path of a local tokenizer.json{hint}"
        ) from error


def build_tokenizer(kind: str, texts: Iterable[str]) -> Tokenizer:
    """A tokenizer by its kind; `texts` is the training text, read only by the kinds that learn from it."""
    if kind == "characters":
        return Characters("".join(sorted(set().union(*map(set, texts)))))
    if kind == "bytes":
        return Bytes()
    if kind.startswith("bpe:"):
        return _train_byte_pairs(kind, texts)
    if Path(kind).exists():
        return load_tokenizer(Path(kind))
    if difflib.get_close_matches(kind, KINDS):
        raise ValueError(f"unknown tokenizer {kind}; {nearest(kind, KINDS)}")
    if not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", kind) or kind.endswith((".json", ".txt")):
        raise ValueError(f"there is no tokenizer file {kind}; otherwise known are {', '.join(KINDS + HUB_EXAMPLES)}")
    return _from_hub(kind)
