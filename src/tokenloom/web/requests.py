"""Requests of the page, parsed and checked: a wrong value is answered with a sentence, never with a traceback.

A request is a JSON object whose fields are those of a dataclass; a field that is unknown, or of another type, is named.
`Limits` bound what one visitor may ask of the machine, whatever the page allows.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeVar

import torch

from tokenloom.models.protocol import Model
from tokenloom.samplers.given import GivenTokens
from tokenloom.samplers.options import SamplerOptions
from tokenloom.state import Noisy
from tokenloom.support.checks import check_least
from tokenloom.support.reading import parse_json
from tokenloom.support.registry import build
from tokenloom.types import Flags

Asked = TypeVar("Asked")


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of all of them together."""

    length: int = 2048
    """Longest sequence, in tokens."""
    steps: int = 1024
    """Most network evaluations of one sequence."""
    tries: int = 32
    """Most draws of one Sudoku that is to be solved."""
    body: int = 262_144
    """Largest request, in bytes."""
    seconds: int = 300
    """Longest time that one request may run."""
    waiting: int = 64
    """Requests that wait for their turn; the next one is refused."""
    workers: int = 2
    """Requests that run at the same time."""

    def __post_init__(self) -> None:
        check_least(self, **dict.fromkeys(asdict(self), 1))

    def longest(self, own: int | None) -> int:
        """Return the longest sequence of a model that has this length, or none of its own."""
        return min(self.length, own or self.length)


@dataclass(frozen=True)
class State:
    """A state x_t during sampling, as the page keeps it."""

    tokens: tuple[int, ...]
    t: float
    aux: tuple[float, ...] | None = None
    """The auxiliary variable of a lifted process."""
    marked: tuple[int, ...] = ()
    """Positions that are shown to the model as given."""

    def noisy(self, model: Model) -> Noisy:
        """Build the library's state; raise unless it is one of the model's process."""
        if not self.tokens:
            raise ValueError("a state needs at least one token")
        process, tokens, t = model.process, torch.tensor([self.tokens]), torch.tensor([self.t], dtype=torch.float64)
        aux = process.auxiliary(tokens, torch.Generator())  # one of its own law, for its dtype
        if (aux is None) != (self.aux is None):
            wants = "has no auxiliary variable; leave it out" if aux is None else "needs its auxiliary variable"
            raise ValueError(f"a state of {process.title} {wants}")
        if aux is not None:
            aux = torch.tensor([self.aux], dtype=torch.float64).to(aux.dtype)
        given = flags_at(self.marked, len(self.tokens)) if self.marked else None
        noisy = Noisy(tokens, t, process.alpha(t), aux, given)
        process.check_state(noisy)
        return noisy


@dataclass(frozen=True)
class Which:
    """A model of those that the server was started with."""

    model: str
    process: str | None = None
    """The process it is used under; its own if None."""


@dataclass(frozen=True)
class Draw(Which):
    """One sequence to draw."""

    sampling: SamplerOptions = field(default_factory=SamplerOptions)
    seed: int = 0
    length: int | None = None
    """Tokens; the model's own length if None."""
    held: tuple[tuple[int, int], ...] = ()
    """Positions that are given, each with its token."""
    begin: State | None = None
    """The state to continue from; the prior if None."""
    tries: int = 0
    """For data with rules (a Sudoku): most draws until a sequence obeys them; 0 draws once, whatever comes out."""

    def given(self, length: int) -> GivenTokens:
        """Return the held tokens, 0 elsewhere, and flags of their positions."""
        held = dict(self.held)
        return torch.tensor([held.get(position, 0) for position in range(length)]), flags_at(held, length)[0]


@dataclass(frozen=True)
class Look(Which):
    """A state whose posteriors are asked for."""

    state: State | None = None
    sampling: SamplerOptions = field(default_factory=SamplerOptions)
    """Top-p, top-k and temperature, to show what they would cut."""
    position: int | None = None


@dataclass(frozen=True)
class Encode(Which):
    """A text or a grid to turn into tokens."""

    text: str = ""
    """The typed text, with _ for a blank (and . or 0 in a grid)."""


@dataclass(frozen=True)
class Table:
    """A tiny distribution to look at exactly: three tokens at two positions."""

    weights: tuple[float, ...] = (1.0,) * 9
    """One weight for each sequence, in reading order; they need not sum to 1."""
    alpha: float = 0.5
    """The noise level of x_t, in (0, 1)."""
    x_t: tuple[int, int] = (0, 0)
    process: Literal["uniform", "masked", "hybrid"] = "uniform"


def parse(body: bytes, kind: type[Asked]) -> Asked:
    """Return the request that a JSON text describes."""
    try:
        values = parse_json(body.decode())
    except ValueError as error:
        raise ValueError(f"the request is not JSON: {str(error)[:200]}") from None
    if not isinstance(values, dict):
        raise ValueError(f"the request must be a JSON object, got {type(values).__name__}")
    return build(kind, values, "the request")


def flags_at(positions: Iterable[int], length: int) -> Flags:
    """Flag some positions of one sequence of this length."""
    flags = torch.zeros(1, length, dtype=torch.bool)
    for position in positions:
        if not 0 <= position < length:
            raise ValueError(f"a position must be in 0..{length - 1}, got {position}")
        flags[0, position] = True
    return flags


def check_within(name: str, value: int, limit: int, remedy: str, least: int = 1) -> None:
    """Raise unless a value is in least..limit."""
    if not least <= value <= limit:
        raise ValueError(f"{name} must be in {least}..{limit:,} here, got {value:,}; {remedy}")
