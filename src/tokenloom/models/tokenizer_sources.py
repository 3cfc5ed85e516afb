"""Tokenizers from a file, a folder with a vocabulary, a name on the Hub, or the training text itself."""

import difflib
import json
import math
import re
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

from tokenloom.models.tokenizer import END_OF_TEXT, Bytes, Characters, Subwords, Tokenizer, cut_at_spaces, in_words
from tokenloom.support.addresses import is_address, local
from tokenloom.support.extras import optional
from tokenloom.support.hub import hub_or_cache
from tokenloom.support.reading import parse_json, read_json, read_text
from tokenloom.support.words import nearest

KINDS = ("characters", "bytes", "bpe", "bpe:N")
FILES = ("tokenizer.json", "*vocab.json", "*vocab.txt")  # patterns of the files that hold the tokenizer of a folder
HUB_NAME = r"\w[\w.-]*(/[\w.-]+)?"
HUB_EXAMPLES = ("gpt2", "bert-base-uncased")
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SMALLEST_BPE = 257  # the bytes and the end of text
SUITABLE = (9, 12)  # the powers of two that `bpe` chooses from: 512 to 4,096 tokens
PER_TOKEN = 1000  # characters of the text for each


def tokenizer_from_json(text: str) -> Tokenizer:
    """Build a tokenizer from `Tokenizer.to_json`, or from a plain tokenizer.json."""
    stored = parse_json(text)
    kind = stored.get("kind") if isinstance(stored, dict) else None
    if kind == "characters" and isinstance(stored.get("alphabet"), str):
        return Characters(stored["alphabet"], stored.get("ends") is True)
    if kind == "bytes":
        return Bytes(stored.get("ends") is True)
    if kind == "subwords" or (isinstance(stored, dict) and "model" in stored):
        return Subwords(json.dumps(stored.get("tokenizer") if kind else stored), stored.get("framed") is True)
    raise ValueError(f"a stored tokenizer is of kind characters, bytes or subwords, got {kind!r}")


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a saved tokenizer, a tokenizer.json, or the vocabulary files of GPT-2 or BERT in a folder."""
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
    for pattern in FILES:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            raise ValueError(f"{folder} has several files {pattern}; give the path of one of them")
        if found:
            return load_tokenizer(found[0])
    raise ValueError(f"{folder} has no tokenizer.json, no vocab.json with merges.txt and no vocab.txt")


def _byte_pairs(vocabulary: Path) -> Tokenizer:
    """Read GPT-2's two files."""
    merges = vocabulary.with_name(vocabulary.name.replace("vocab.json", "merges.txt"))
    if not merges.is_file():
        raise ValueError(f"{vocabulary} needs its merges beside it, but there is no {merges.name}")
    library = optional("tokenizers", "text")
    with in_words(f"{vocabulary} and {merges.name} are not the tokenizer of a GPT-2"):
        model = library.models.BPE.from_file(str(vocabulary), str(merges))
    return Subwords(_byte_level(library, model).to_str())


def _byte_level(library: Any, model: Any) -> Any:
    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    if tokenizer.token_to_id(END_OF_TEXT) is not None:
        tokenizer.add_special_tokens([END_OF_TEXT])
    return tokenizer


def _wordpiece(vocabulary: Path) -> Tokenizer:
    """Read BERT's vocabulary; it is uncased if no word has a capital letter."""
    words = read_text(vocabulary).splitlines()
    if "[UNK]" not in words:
        raise ValueError(f"{vocabulary} is not a vocabulary of BERT: it has no [UNK]")
    library = optional("tokenizers", "text")
    uncased = all(word == word.lower() for word in words if not word.startswith("["))
    ids = {word: index for index, word in enumerate(words)}
    tokenizer = library.Tokenizer(library.models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = library.normalizers.BertNormalizer(lowercase=uncased)
    tokenizer.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = library.decoders.WordPiece()
    tokenizer.add_special_tokens([word for word in BERT_SPECIAL if word in words])
    return Subwords(tokenizer.to_str())


def suitable_size(texts: Iterable[str]) -> tuple[int, Iterable[str]]:
    """Return the tokens of a BPE that suits the texts, one per thousand characters, and the texts to learn it from."""
    rest, read, count = iter(texts), list[str](), 0
    for text in rest:
        read.append(text)
        count += len(text)
        if count > PER_TOKEN << SUITABLE[1]:
            break
    power = round(math.log2(max(1.0, count / PER_TOKEN)))
    return 1 << min(max(power, SUITABLE[0]), SUITABLE[1]), chain(read, rest)


def _train_byte_pairs(kind: str, texts: Iterable[str]) -> Tokenizer:
    size = kind.removeprefix("bpe:")
    if kind == "bpe":
        chosen, texts = suitable_size(texts)
        size = str(chosen)
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
    tokenizer.train_from_iterator((piece for text in texts for piece in cut_at_spaces(text)), trainer)
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
    """Build a tokenizer by its kind; `texts` is the training text, read only by the kinds that learn from it."""
    if kind == "characters":
        alphabet, documents = set[str](), 0
        for text in texts:
            alphabet.update(text)
            documents += 1
        return Characters("".join(sorted(alphabet)), ends=documents > 1)
    if kind == "bytes":
        return Bytes(ends=len(list(islice(texts, 2))) > 1)
    if kind.partition(":")[0] == "bpe":
        return _train_byte_pairs(kind, texts)
    if is_address(kind) or Path(kind).exists():
        return load_tokenizer(local(kind, depth=1))
    if difflib.get_close_matches(kind, KINDS):
        raise ValueError(f"unknown tokenizer {kind}; {nearest(kind, KINDS)}")
    if not re.fullmatch(HUB_NAME, kind) or kind.endswith((".json", ".txt")):
        raise ValueError(f"there is no tokenizer file {kind}; otherwise known are {', '.join(KINDS + HUB_EXAMPLES)}")
    return _from_hub(kind)
