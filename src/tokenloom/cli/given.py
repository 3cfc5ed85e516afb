"""--prompt and --infill: what is given of a sequence, as tokens and flags."""

import torch
from torch import Tensor

from tokenloom.evaluation.runs import Run

BLANKS = "._0"


def read_given(
    run: Run, prompt: str | None, infill: str | None, length: int | None
) -> tuple[tuple[Tensor, Tensor] | None, int | None]:
    """Given tokens with their flags, from a prompt or from a sequence with blanks; and the length."""
    length = run.model.length if length is None else length
    if prompt is None and infill is None:
        return None, length
    if prompt is not None and infill is not None:
        raise ValueError("give --prompt or --infill, not both")
    ids = _template(run, infill) if infill is not None else _encode(run, prompt or "")
    if length is None:
        raise ValueError("the model does not say how long its sequences are; pass --length")
    if len(ids) > length:
        raise ValueError(f"the given text has {len(ids)} tokens, but a sequence has {length}; shorten it")
    if infill is not None and run.tokenizer is None and len(ids) < length:
        raise ValueError(f"--infill has {len(ids)} cells, but a sequence has {length}; write blanks for the rest")
    tokens, flags = torch.zeros(length, dtype=torch.int64), torch.zeros(length, dtype=torch.bool)
    for position, token in enumerate(ids):
        if token is not None:
            tokens[position], flags[position] = token, True
    return (tokens, flags), length


def _encode(run: Run, text: str) -> list[int | None]:
    return _digits(run, text) if run.tokenizer is None else [*run.tokenizer.encode(text)]


def _template(run: Run, text: str) -> list[int | None]:
    """Blanks as None: every _ of a text is one token, every . _ or 0 of a grid one cell."""
    if run.tokenizer is None:
        return _digits(run, text)
    ids: list[int | None] = []
    for index, part in enumerate(text.split("_")):
        ids += ([None] if index else []) + (list(run.tokenizer.encode(part)) if part else [])
    return ids


def _digits(run: Run, text: str) -> list[int | None]:
    size = run.model.process.vocab_size
    ids: list[int | None] = []
    for place, symbol in enumerate("".join(text.split()), 1):
        if symbol in BLANKS:
            ids.append(None)
        elif symbol in "123456789"[:size]:
            ids.append(int(symbol) - 1)
        else:
            raise ValueError(f"symbol {place} is {symbol!r}; a grid has the digits 1..{size} and {' '.join(BLANKS)}")
    return ids
