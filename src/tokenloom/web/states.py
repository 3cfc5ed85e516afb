"""Tokens between the page and the library: typed text, a state with its time, what is given, and how tokens look."""

from collections.abc import Iterable
from typing import Any

import torch

from tokenloom.cli.given import read_given
from tokenloom.models.protocol import Model
from tokenloom.samplers.given import GivenTokens
from tokenloom.state import Noisy
from tokenloom.types import Flags
from tokenloom.web.library import Entry
from tokenloom.web.limits import Limits
from tokenloom.web.requests import Draw, Encode, State


def encode(asked: Encode, entry: Entry, limits: Limits) -> dict[str, Any]:
    """Return the tokens of a text, null for a blank, up to the last one that is not blank."""
    model = entry.model(asked.process)
    length = min(limits.length, model.length or limits.length)
    if len(asked.text) > 16 * limits.length:
        raise ValueError(f"the text has {len(asked.text):,} characters; {16 * limits.length:,} are the limit here")
    given = read_given(model, None, asked.text, length)
    assert given is not None
    tokens, flags = given[0].tolist(), given[1].tolist()
    cells = [token if flag else None for token, flag in zip(tokens, flags, strict=True)]
    while cells and cells[-1] is None:
        cells.pop()
    pieces = {str(token): entry.decoder.piece(token) for token in cells if token is not None}
    return {"tokens": cells, "pieces": pieces}


def noisy_of(state: State, model: Model) -> Noisy:
    """Build the library's state from the page's; raise unless it is a state of the model's process."""
    if not state.tokens:
        raise ValueError("a state needs at least one token")
    process, tokens, t = model.process, torch.tensor([state.tokens]), torch.tensor([state.t], dtype=torch.float64)
    aux = process.auxiliary(tokens, torch.Generator())  # one of its own law, for its dtype
    if (aux is None) != (state.aux is None):
        wants = "has no auxiliary variable; leave it out" if aux is None else "needs its auxiliary variable"
        raise ValueError(f"a state of {process.title} {wants}")
    if aux is not None:
        aux = torch.tensor([state.aux], dtype=torch.float64).to(aux.dtype)
    given = flags_at(state.marked, len(state.tokens)) if state.marked else None
    noisy = Noisy(tokens, t, process.alpha(t), aux, given)
    process.check_state(noisy)
    return noisy


def given_of(request: Draw, length: int) -> GivenTokens:
    """Return the held tokens, 0 elsewhere, and flags of their positions."""
    held = dict(request.held)
    flags = flags_at(held, length)[0]
    return torch.tensor([held.get(position, 0) for position in range(length)]), flags


def flags_at(positions: Iterable[int], length: int) -> Flags:
    """Flag some positions of one sequence of this length."""
    flags = torch.zeros(1, length, dtype=torch.bool)
    for position in positions:
        if not 0 <= position < length:
            raise ValueError(f"a position must be in 0..{length - 1}, got {position}")
        flags[0, position] = True
    return flags
