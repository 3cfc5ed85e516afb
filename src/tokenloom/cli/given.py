"""--prompt and --infill: what is given of a sequence, as tokens and flags."""

import torch

from tokenloom.models.model import DiffusionModel
from tokenloom.samplers.given import GivenTokens

BLANKS = "._0"


def read_given(model: DiffusionModel, prompt: str | None, infill: str | None, length: int | None) -> GivenTokens | None:
    """Return given tokens with their flags, from a prompt or from a sequence with blanks of this length."""
    text = prompt if infill is None else infill
    if text is None:
        return None
    if prompt is not None and infill is not None:
        raise ValueError("give --prompt or --infill, not both")
    tokenizer = model.tokenizer
    ids: list[int | None] = []
    if tokenizer is None:
        ids = _cells(text, model.process.vocab_size)
    else:
        for index, part in enumerate([text] if infill is None else text.split("_")):
            ids += ([None] if index else []) + (list(tokenizer.encode(part)) if part else [])
    if length is None:
        raise ValueError("the model does not say how long its sequences are; pass --length")
    if len(ids) > length:
        raise ValueError(f"the given text has {len(ids)} tokens, but a sequence has {length}; shorten it")
    if infill is not None and tokenizer is None and len(ids) < length:
        raise ValueError(f"--infill has {len(ids)} cells, but a sequence has {length}; write blanks for the rest")
    ids += [None] * (length - len(ids))
    tokens = torch.tensor([token or 0 for token in ids], dtype=torch.int64)
    return tokens, torch.tensor([token is not None for token in ids], dtype=torch.bool)


def _cells(text: str, size: int) -> list[int | None]:
    """Return the cells of a grid, None for a blank."""
    symbols = "".join(text.split())
    for place, symbol in enumerate(symbols, 1):
        if symbol not in "123456789"[:size] + BLANKS:
            raise ValueError(f"symbol {place} is {symbol!r}; a grid has the digits 1..{size} and {' '.join(BLANKS)}")
    return [None if symbol in BLANKS else int(symbol) - 1 for symbol in symbols]
