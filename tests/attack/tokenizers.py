"""Odd tokenizers, inside a model that is sealed and as a file that a training is given: loaded, used, or refused.

A panic of the library `tokenizers`, which is no `Exception`, must not get out either.
"""

import json
import shutil
from base64 import b64encode
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from tests.attack import sealed
from tests.attack.damage import VALUES, edit_json
from tests.attack.worker import Case
from tests.attack.workspace import SMALL, TEXT, Workspace, command

UNKNOWN, END = "<unk>", "<|endoftext|>"
LETTERS = [UNKNOWN, END, *sorted(set(TEXT.strip()) - {" "})]
VOCABULARY = {token: index for index, token in enumerate([*LETTERS, "the", "th", "at", "cat", "##at", "\u2581the"])}
SPACES: dict[str, Any] = {"type": "Whitespace"}
META: dict[str, Any] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "WordLevel": ({"vocab": VOCABULARY, "unk_token": UNKNOWN}, SPACES),
    "WordPiece": (
        {
            "vocab": VOCABULARY,
            "unk_token": UNKNOWN,
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        },
        {"type": "BertPreTokenizer"},
    ),
    "BPE": (
        {"vocab": VOCABULARY, "merges": [["t", "h"], ["th", "e"], ["a", "t"]], "unk_token": UNKNOWN, "fuse_unk": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    ),
    "Unigram": ({"vocab": [[token, -1.0 - index] for token, index in VOCABULARY.items()], "unk_id": 0}, META),
}
"""The kinds of models that the library knows, each with how it splits a text first."""
DECODERS: tuple[Any, ...] = (
    None, {"type": "ByteLevel"}, {"type": "WordPiece", "prefix": "##", "cleanup": True}, META, {"type": "Fuse"},
    {"type": "ByteFallback"}, {"type": "Strip", "content": "t", "start": 10**9, "stop": 10**9}, {"type": "CTC"},
    {"type": "Replace", "pattern": {"Regex": "("}, "content": ""}, {"type": "Sequence", "decoders": []},
)  # fmt: skip
REGEXES = ("(a+)+$", "(a|aa)+$", "(", "(?<=a+)b", "", "\\p{Nope}", "(?R)", "a{1000000}", "(.*)*\\1", "[")
NUMBERS = (-1, 999, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64, 0.5, "7", None)
TRAINING = f"train --recipe chars --data.length 16 {SMALL} --run.valid-rows 2 --max-steps 1 --out new"


def whole(random: Random) -> dict[str, Any]:
    """A tokenizer.json that is right."""
    kind = random.choice(list(MODELS))
    model, rule = MODELS[kind]
    parts = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    special = {"id": 1, "content": END, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [special | {"special": True}] if random.random() < 0.5 else []
    return deepcopy(
        {"version": "1.0", "added_tokens": added, "pre_tokenizer": rule, "model": {"type": kind, **model}}
        | dict.fromkeys(parts)
    )


def unknown_model(random: Random, record: dict[str, Any]) -> str:
    record["model"]["type"] = random.choice(("Nope", "", None, "BPE", "Unigram", "WordLevel"))
    return f"the model is a {record['model']['type']}"


def charsmap(random: Random, record: dict[str, Any]) -> str:
    size = random.choice((0, 1, 3, 4, 5, 8, 12, 100, 5000))
    content = random.choice((random.randbytes(size), size.to_bytes(4, "little") + random.randbytes(size)))
    text = random.choice((b64encode(content).decode(), "!!", "\u2603", None, 5))
    record["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": text}
    return f"a Precompiled normalizer of {str(text)[:20]}"


def regex(random: Random, record: dict[str, Any]) -> str:
    pattern = {random.choice(("Regex", "Regex", "String", "x")): random.choice(REGEXES)}
    if random.random() < 0.5:
        behaviour = random.choice(("Isolated", "Removed", "MergedWithPrevious", "Contiguous", "x"))
        record["pre_tokenizer"] = {"type": "Split", "pattern": pattern, "behavior": behaviour, "invert": False}
    else:
        record["normalizer"] = {"type": "Replace", "pattern": pattern, "content": random.choice(("", "x" * 1000))}
    return f"the pattern {pattern}"


def no_unknown(random: Random, record: dict[str, Any]) -> str:
    model = record["model"]
    if "unk_id" in model:
        model["unk_id"] = random.choice((None, *NUMBERS))
    elif random.random() < 0.5:
        model["vocab"].pop(UNKNOWN)
    else:
        model["unk_token"] = random.choice(("[none]", None, "", 3))
    return f"the unknown token is {model.get('unk_id', model.get('unk_token'))!r}"


def odd_id(random: Random, record: dict[str, Any]) -> str:
    vocabulary, number = record["model"]["vocab"], random.choice((0, 1, 70, *NUMBERS))
    token = random.choice(list(VOCABULARY))
    if isinstance(vocabulary, dict):
        vocabulary[token] = number
    else:
        vocabulary[VOCABULARY[token]] = random.choice(([token, number], [token], [], [number, token], [token, 1e308]))
    return f"{token!r} has the id {number}"


def merges(random: Random, record: dict[str, Any]) -> str:
    odd = random.choice((["q", "z"], ["t"], "t h", "th", ["t", "h", "e"], [1, 2], [], "", ["", ""], ["the", "the"]))
    record["model"].setdefault("merges", []).append(odd)
    return f"a merge {odd!r}"


def added_token(random: Random, record: dict[str, Any]) -> str:
    fields = ("single_word", "lstrip", "rstrip", "normalized", "special")
    token = dict.fromkeys(fields, random.random() < 0.5)
    content = random.choice(("", "the", END, " ", "\n", "x" * 10_000, "\u2603", None, 3))
    record["added_tokens"].append(token | {"id": random.choice((0, 5, 40, *NUMBERS)), "content": content})
    return f"the token {str(content)[:20]!r} added as {record['added_tokens'][-1]['id']}"


def decoder(random: Random, record: dict[str, Any]) -> str:
    record["decoder"] = random.choice(DECODERS)
    return f"the decoder {record['decoder']}"


def part(random: Random, record: dict[str, Any]) -> str:
    key = random.choice(list(record))
    record[key] = random.choice((*VALUES, [record[key]], {"type": "Sequence", key + "s": [record[key]] * 100}))
    return f"{key} is {str(record[key])[:30]}"


def ours(random: Random, record: dict[str, Any]) -> str:
    """Tokenizers as our own models store them."""
    inside = dict(record)
    record.clear()
    alphabet = random.choice(("ba", "", "aa", "ab\ud800", "".join(map(chr, range(40, 99))), "\U0010ffff", 3, None))
    record |= random.choice((
        {"kind": "characters", "alphabet": alphabet}, {"kind": "bytes"}, {"kind": "x", "model": inside},
        {"kind": "subwords", "tokenizer": random.choice((inside, [inside], json.dumps(inside), *VALUES))},
        {"kind": "subwords", "tokenizer": inside, "framed": random.choice((True, "yes", 1))},
    ))  # fmt: skip
    return f"{str(record)[:60]}"


def any_edit(random: Random, record: dict[str, Any]) -> str:
    content = bytearray(json.dumps(record).encode())
    said = edit_json(random, content, Path("nowhere"))
    record.clear()
    record |= json.loads(content)
    return said


WAYS: tuple[Callable[[Random, dict[str, Any]], str], ...] = (
    unknown_model, charsmap, regex, regex, no_unknown, odd_id, odd_id, merges, added_token, added_token, decoder, part,
    any_edit, any_edit, any_edit,
)  # fmt: skip


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"tokenizers {seed} {index}")
    record = whole(random)
    kind = record["model"]["type"]
    said = [way(random, record) for way in random.sample(WAYS, random.choice((0, 1, 1, 1, 2)))]
    if random.random() < 0.1:
        said.append(ours(random, record))
    name = random.choice(("load", "load", "load", "sample", "page", "train"))
    title = f"{name} with a {kind} tokenizer: {', '.join(said)}"

    def prepare(here: Path) -> str:
        (here / "tokenizer.json").write_text(json.dumps(record))
        if name != "train":
            shutil.copytree(space.folder / "subwords", here / "model")
            config = json.loads((here / "model" / "config.json").read_text())
            stored = record if "kind" in record else {"kind": "subwords", "tokenizer": record}
            sealed.reseal(here / "model", config | {"tokenizer": stored})
        (here / "text.txt").write_text(TEXT + "a" * 30 + "b")
        return title

    return Case("tokenizers", index, prepare, lambda here: _use(name, here))


def _use(name: str, here: Path) -> None:
    if name == "train":
        command(
            *TRAINING.split(), "--data.path", str(here / "text.txt"), "--data.tokenizer", str(here / "tokenizer.json")
        )
    else:
        sealed.use(name, here / "model")
