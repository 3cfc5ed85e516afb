"""Tokens between the page and the library: typed text, a state with its time, what is given, and how tokens look."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from tokenloom.cli.given import read_given
from tokenloom.data.decoder import Decoder
from tokenloom.models.protocol import Model
from tokenloom.samplers.given import GivenTokens
from tokenloom.state import Noisy
from tokenloom.web.library import Entry
from tokenloom.web.limits import Limits
from tokenloom.web.requests import Draw, Encode, State


class Pieces:
    """The texts of tokens, each sent once to a reader, however often the token occurs."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self._seen: set[int] = set()

    def new(self, tokens: Iterable[int]) -> dict[str, str]:
        """Return the texts of tokens that the reader has not seen yet, by id as JSON has it."""
        fresh = set(tokens) - self._seen
        self._seen |= fresh
        return {str(token): self._decoder.piece(token) for token in sorted(fresh)}


def encode(asked: Encode, entry: Entry, limits: Limits) -> dict[str, Any]:
    """Return the tokens of a text, null for a blank, up to the last one that is not blank."""
    run = entry.run(asked.process)
    length = min(limits.length, run.model.length or limits.length)
    if len(asked.text) > 16 * limits.length:
        raise ValueError(f"the text has {len(asked.text):,} characters; {16 * limits.length:,} are the limit here")
    given, _ = read_given(run.model, None, asked.text, length)
    assert given is not None
    tokens, flags = given[0].tolist(), given[1].tolist()
    cells = [token if flag else None for token, flag in zip(tokens, flags, strict=True)]
    while cells and cells[-1] is None:
        cells.pop()
    return {"tokens": cells, "pieces": Pieces(entry.decoder).new(token for token in cells if token is not None)}


def noisy_of(state: State, model: Model) -> Noisy:
    """Return the page's state as the library has it, checked."""
    process, size = model.process, len(state.tokens)
    if not size:
        raise ValueError("a state needs at least one token")
    if not 0 <= state.t <= 1:
        raise ValueError(f"the time of a state must be in [0, 1], got {state.t:g}")
    t = torch.tensor([state.t], dtype=torch.float64)
    given = None
    if state.marked:
        given = torch.zeros(1, size, dtype=torch.bool)
        for position in state.marked:
            given[0, checked_position(position, size)] = True
    noisy = Noisy(torch.tensor([state.tokens]), t, process.alpha(t), _auxiliary(state, model), given)
    process.check_state(noisy)
    return noisy


def _auxiliary(state: State, model: Model) -> Tensor | None:
    """Return the auxiliary variable in the process's dtype: integers for U, floats for tau."""
    title, like = model.process.title, model.process.prior(1, 1, torch.Generator().manual_seed(0)).aux
    if like is None and state.aux is not None:
        raise ValueError(f"a state of {title} has no auxiliary variable; leave it out")
    if like is not None and state.aux is None:
        raise ValueError(f"a state of {title} needs its auxiliary variable")
    return None if like is None else torch.tensor([state.aux], dtype=torch.float64).to(like.dtype)


def given_of(request: Draw, length: int) -> GivenTokens:
    """Return the held tokens, 0 elsewhere, and flags of their positions."""
    tokens, flags = torch.zeros(length, dtype=torch.int64), torch.zeros(length, dtype=torch.bool)
    for position, token in request.held:
        tokens[checked_position(position, length)], flags[position] = token, True
    return tokens, flags


def checked_position(position: int, length: int) -> int:
    """Return the position; raise unless it lies in a sequence of this length."""
    if not 0 <= position < length:
        raise ValueError(f"a position must be in 0..{length - 1}, got {position}")
    return position
