"""Text that is given: prompts, which a sequence begins with, and templates, in which `_` is a blank of one token."""

from collections.abc import Sequence

import torch

from tokenloom.models.protocol import Model
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.samplers.given import GivenTokens

BLANK = "_"
Cells = list[int | None]
"""Token ids, None for a blank."""


def template_cells(tokenizer: Tokenizer, template: str) -> Cells:
    """Return the tokens of a template and its blanks; text between two blanks is tokenised on its own."""
    cells: Cells = []
    for number, part in enumerate(template.split(BLANK)):
        cells += ([None] if number else []) + (list(tokenizer.encode(part)) if part else [])
    return cells


def given_tokens(rows: Sequence[Cells], length: int) -> GivenTokens:
    """Return rows as tokens and the flags of what is given, blank up to the length."""
    longest = max(map(len, rows), default=0)
    if longest > length:
        raise ValueError(f"the given text has {longest} tokens, but a sequence has {length}; shorten it")
    whole = [token for cells in rows for token in cells + [None] * (length - len(cells))]
    tokens = torch.tensor([token or 0 for token in whole], dtype=torch.int64)
    flags = torch.tensor([token is not None for token in whole], dtype=torch.bool)
    return tokens.view(-1, length), flags.view(-1, length)


def prompt_tokens(model: Model, prompt: str | Sequence[str], batch: int, length: int) -> GivenTokens:
    """Return the tokens of the text that every sequence begins with, or of one text for each."""
    if model.tokenizer is None:
        raise ValueError("prompt= needs a model with a tokenizer; pass given=(tokens, flags) instead")
    texts = [prompt] * batch if isinstance(prompt, str) else prompt
    if len(texts) != batch:
        raise ValueError(f"prompt holds {len(texts)} texts for a batch of {batch}; pass one text, or one for each row")
    tokens, flags = given_tokens([list(model.tokenizer.encode(text)) for text in texts], length)
    return (tokens, flags) if model.device is None else (tokens.to(model.device), flags.to(model.device))
