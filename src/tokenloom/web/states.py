"""States between the page and the library: tokens, a time, and what is given."""

import torch
from torch import Tensor

from tokenloom.models.protocol import Model
from tokenloom.samplers.given import BIASED, GivenTokens
from tokenloom.state import Noisy
from tokenloom.web.requests import Draw, State


def noisy_of(state: State, model: Model) -> Noisy:
    """The state as the library has it, checked."""
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
    """U as whole numbers, tau as numbers, as the process has them."""
    if state.aux is None:
        if model.process.lifted:
            raise ValueError(f"a state of {model.process.title} needs its auxiliary variable")
        return None
    like = model.process.prior(1, 1, torch.Generator().manual_seed(0)).aux
    if like is None:
        raise ValueError(f"a state of {model.process.title} has no auxiliary variable; leave it out")
    return torch.tensor([state.aux], dtype=torch.float64).to(like.dtype)


def given_of(request: Draw, length: int) -> GivenTokens | None:
    """The held positions as tokens and flags; None where nothing is held."""
    if not request.held:
        return None
    tokens, flags = torch.zeros(length, dtype=torch.int64), torch.zeros(length, dtype=torch.bool)
    for position, token in request.held:
        tokens[checked_position(position, length)], flags[position] = token, True
    return tokens, flags


def checked_position(position: int, length: int) -> int:
    """A position of a sequence."""
    if not 0 <= position < length:
        raise ValueError(f"a position must be in 0..{length - 1}, got {position}")
    return position


def shown_noised(model: Model, held: bool) -> str | None:
    """What to say where given tokens are noised, because the model cannot know that they are given; else None."""
    knows = model.causal or model.marks_given or model.process.reveals
    return BIASED if held and not knows else None
