"""The ids of a language model that are not text: the mask, the frame, special tokens, and rows without a token.

The names of special tokens are read from the files beside a model; without them, the customary names are tried.
"""

import re
from pathlib import Path
from typing import NamedTuple

import torch

from tokenloom.models.interop.families import Config
from tokenloom.models.tokenizer import Subwords, Tokenizer
from tokenloom.models.tokenizer_sources import FILES, build_tokenizer, load_tokenizer
from tokenloom.nn.hugging_face import Forbidden
from tokenloom.support.extras import optional
from tokenloom.support.reading import read_json, read_text

Named = str | Path | Tokenizer | None  # a tokenizer, or where it comes from
ROLES = ("special_tokens_map.json", "tokenizer_config.json")
MASKS = ("[MASK]", "<mask>", "<|mask|>", "<|mdm_mask|>")
FIRSTS = ("[CLS]", "<cls>", "<s>")
LASTS = ("[SEP]", "<sep>", "<eos>", "</s>")
SPECIAL = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|BOS|EOS)\]|<(s|/s|pad|unk|mask|cls|sep|bos|eos)>|<\|(mask|mdm_mask)\|>")
NEVER_USED = re.compile(r"\[unused\d+\]|madeupword\d+|<null_\d+>")


class Vocabulary(NamedTuple):
    """The mask, the tokens before and behind a sequence, and flags of the ids that are never predicted."""

    mask: int
    first: int | None
    last: int | None
    forbidden: Forbidden


def tokenizer_of(given: Named, folder: Path, most: int) -> Tokenizer | None:
    """Return the tokenizer that was named, else that of the folder, else None; it has at most so many ids."""
    found = given if isinstance(given, Tokenizer) else _read_tokenizer(given, folder)
    if found is not None and found.vocab_size > most:
        raise ValueError(f"the tokenizer has {found.vocab_size:,} ids, but the network reads {most:,}; name its own")
    return found


def _read_tokenizer(given: str | Path | None, folder: Path) -> Tokenizer | None:
    place = folder if given is None else Path(given)
    files = [path for pattern in FILES for path in sorted(place.glob(pattern))] if place.is_dir() else [place]
    if len(files) == 1 and files[0].name.endswith("vocab.txt") and files[0].is_file():
        words = read_text(files[0]).splitlines()
        return load_tokenizer(files[0]) if any(word.startswith("##") for word in words) else symbols(words)
    if given is None:
        return load_tokenizer(folder) if files else None
    return build_tokenizer(str(given), ())


def symbols(words: list[str]) -> Subwords:
    """Build the tokenizer of a vocabulary of symbols, as of molecules or proteins: text is cut into the longest."""
    library = optional("tokenizers", "text")
    unknown = next((word for word in words if word in ("[UNK]", "<unk>")), None)
    if unknown is None:
        raise ValueError("a vocabulary of symbols needs a token for unknown ones, [UNK] or <unk>")
    roles = [word for word in words if SPECIAL.fullmatch(word) or NEVER_USED.fullmatch(word)]
    known = sorted(set(words) - set(roles) - {""}, key=lambda word: (-len(word), word))
    pattern = "|".join([r"\[[^\[\]]*\]", *map(re.escape, known)])  # anything in square brackets is one, known or not
    tokenizer = library.Tokenizer(library.models.WordLevel({word: id for id, word in enumerate(words)}, unknown))
    tokenizer.normalizer = library.normalizers.Replace(library.Regex(r"\s+"), "")
    tokenizer.pre_tokenizer = library.pre_tokenizers.Split(library.Regex(pattern), "isolated")
    tokenizer.decoder = library.decoders.Fuse()
    tokenizer.add_special_tokens(roles)
    return Subwords(tokenizer.to_str())


def read_vocabulary(
    tokenizer: Tokenizer | None, folder: Path, config: Config, size: int, allow: tuple[str, ...], specials: bool
) -> Vocabulary:
    """Find the roles of ids 0..size - 1, from the tokenizer, the files beside it and the config.

    Never predicted are the mask, rows without a token and, with `specials`, the names of roles and words that were
    never used, except those that `allow` names.
    """
    ids: dict[str, int] = {}
    marked: list[int] = []
    if isinstance(tokenizer, Subwords):
        ids = tokenizer.backend.get_vocab()
        marked = [id for id, token in tokenizer.backend.get_added_tokens_decoder().items() if token.special]
    roles = _roles(folder)
    names = {name for name in ids if SPECIAL.fullmatch(name) or NEVER_USED.fullmatch(name)} | set(roles.values())
    never = set(range(size)) - set(ids.values()) if ids else set()
    if specials:
        never |= {*marked, *(ids[name] for name in names if name in ids)}

    def find(keys: tuple[str, ...], customary: tuple[str, ...]) -> int | None:
        said = [ids[roles[key]] for key in keys if roles.get(key) in ids]
        known = [ids[name] for name in customary if name in ids]
        stored = [config[f"{key}_id"] for key in keys if isinstance(config.get(f"{key}_id"), int)]
        return next((id for id in (*said, *known, *stored) if 0 <= id < size), None)

    mask, first = find(("mask_token",), MASKS), find(("cls_token", "bos_token"), FIRSTS)
    if mask is None:
        raise ValueError("no mask token was found, nor mask_token_id in config.json; name the model's own tokenizer")
    for name in allow:
        allowed = [] if tokenizer is None else tokenizer.encode(name)
        if len(allowed) != 1:
            raise ValueError(f"{name!r} is not one token of the tokenizer, so it cannot be allowed")
        never -= {*allowed}
    forbidden = torch.zeros(size, dtype=torch.bool)
    forbidden[[*never, mask]] = True
    return Vocabulary(mask, first, find(("sep_token", "eos_token"), LASTS), forbidden)


def _roles(folder: Path) -> dict[str, str]:
    """Read the names of special tokens by their role from the files of a folder."""
    found: dict[str, str] = {}
    for name in ROLES:
        record = read_json(folder / name) if (folder / name).is_file() else {}
        for key, value in record.items() if isinstance(record, dict) else ():
            content = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(content, str):
                found.setdefault(key, content)
    return found
