"""What the page may ask, parsed and checked: a wrong value is answered with a sentence, never with a traceback.

A request is a JSON object whose fields are those of a dataclass; a field that is unknown, or of another type, is named.
"""

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar

from tokenloom.samplers.options import SamplerOptions
from tokenloom.support.registry import build

Asked = TypeVar("Asked")

LARGEST = 2**63 - 1


@dataclass(frozen=True)
class State:
    """A state on the way down, as the page keeps it."""

    tokens: tuple[int, ...]
    """The ids x_t."""
    t: float
    """Their time."""
    aux: tuple[float, ...] | None = None
    """The auxiliary variable of a lifted process."""
    marked: tuple[int, ...] = ()
    """Positions that are shown to the model as given."""


@dataclass(frozen=True)
class Which:
    """A model of those that the server was started with."""

    model: str
    """Its name in the list."""
    process: str | None = None
    """The process it is used under; its own if None."""


@dataclass(frozen=True)
class Draw(Which):
    """One sequence to draw."""

    sampling: SamplerOptions = field(default_factory=SamplerOptions)
    """Sampler, corrector, truncation and steps."""
    seed: int = 0
    """The seed of the sequence."""
    length: int | None = None
    """Tokens; the model's own length if None."""
    held: tuple[tuple[int, int], ...] = ()
    """Positions that are given, each with its token."""
    begin: State | None = None
    """Where to continue from; the prior if None."""
    tries: int = 0
    """For a Sudoku: draw until a grid obeys the rules, at most so often; 0 draws once, whatever comes out."""


@dataclass(frozen=True)
class Look(Which):
    """A state to ask the model about."""

    state: State | None = None
    """The state."""
    sampling: SamplerOptions = field(default_factory=SamplerOptions)
    """What top-p, top-k and temperature would cut."""
    position: int | None = None
    """The position whose posteriors are wanted."""


@dataclass(frozen=True)
class Encode(Which):
    """A text or a grid to turn into tokens."""

    text: str = ""
    """What was typed, with _ for a blank (and . or 0 in a grid)."""


@dataclass(frozen=True)
class Puzzle:
    """An example to load."""

    side: int = 9
    """The side of the grid."""
    level: Literal["easy", "medium", "hard"] = "easy"
    """How deep logic must look."""
    seed: int = 0
    """Which of them."""


@dataclass(frozen=True)
class Table:
    """A tiny distribution to look at exactly: three tokens at two positions."""

    weights: tuple[float, ...] = (1.0,) * 9
    """One weight for each sequence, in reading order; they need not sum to 1."""
    alpha: float = 0.5
    """The noise level of x_t, in (0, 1)."""
    x_t: tuple[int, int] = (0, 0)
    """The noisy tokens."""
    process: Literal["uniform", "masked", "hybrid"] = "uniform"
    """The process that made them."""


def parse(body: bytes, kind: type[Asked]) -> Asked:
    """A request from its JSON."""
    try:
        values = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the request is not JSON: {str(error)[:200]}") from None
    return _built(kind, values, "the request")


def _built(kind: type[Asked], values: Any, what: str) -> Asked:
    if not isinstance(values, dict):
        raise ValueError(f"{what} must be a JSON object, got {type(values).__name__}")
    for part, nested in (("sampling", SamplerOptions), ("begin", State), ("state", State)):
        names = {item.name for item in fields(kind)}  # type: ignore[arg-type]
        if part in names and values.get(part) is not None:
            values = values | {part: _built(nested, values[part], part)}
    _check_numbers(values, what)
    _check_pairs(values.get("held", ()), what)
    return build(kind, values, what)


def _check_pairs(held: Any, what: str) -> None:
    if not isinstance(held, list | tuple) or not all(isinstance(pair, list) and len(pair) == 2 for pair in held):
        raise ValueError(f"the option held of {what} must be a list of pairs [position, token], got {repr(held)[:80]}")


def _check_numbers(value: Any, what: str) -> None:
    """Numbers beyond 64 bits belong to no field."""
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"a number of {what} does not fit into 64 bits; use a smaller one")
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inside:
        _check_numbers(part, what)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")
