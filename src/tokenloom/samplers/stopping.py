r"""Rows that stop early: at every network evaluation a rule looks at what the model finds most probable.

Where the rule agrees, this sequence is the row's result and the network is not asked about the row again.  It is then
an answer and no longer a draw from the model.  The other rows do not notice.

A rule is a function of sequences and the rows of the batch that they belong to, or a `StopRule`, which also sees
entropies and remembers what it saw.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.drawing.log_space import entropy
from tokenloom.samplers.given import HeldPositions
from tokenloom.samplers.selection import mode
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields
from tokenloom.types import Flags, Logits, PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class Offer:
    """The predictions for some rows at one evaluation."""

    rows: Int[Tensor, "rows"]
    """Their numbers in the batch."""
    tokens: Tokens
    """The most probable token of each free position under the (truncated) denoiser, beside the given ones."""
    free: Flags
    """Flags of the positions that are not given."""
    logits: Logits
    """The denoiser itself."""
    temperature: PerRow
    """The temperature at which the predictor draws here."""

    @cached_property
    def entropy(self) -> PerPosition:
        """The entropy of each free position at that temperature, in nats, computed when it is first asked for."""
        batch, length = self.tokens.shape
        found = entropy(self.logits.flatten(0, 1), self.temperature.repeat_interleave(length))
        return torch.where(self.free, found.view(batch, length), 0)


@dataclass(frozen=True)
class StopRule(ABC):
    """A condition with its options: a frozen dataclass, registered by name."""

    name: ClassVar[str]

    def __post_init__(self) -> None:
        check_fields(self)

    def begin(self, start: Tokens) -> Any:
        """Return the memory at the beginning of a run that starts at these tokens."""
        return None

    @abstractmethod
    def look(self, offer: Offer, memory: Any) -> tuple[Bool[Tensor, "rows"], Any]:
        """Return flags of the rows to stop at what is offered, and the memory for the next look."""


STOPS: Registry[StopRule] = Registry("stop rule", "tokenloom.stops", "tokenloom.samplers.stops")
Predicate = Callable[[Tokens, Int[Tensor, "rows"]], Bool[Tensor, "rows"]]
Until = Predicate | StopRule
"""A function from sequences, and the rows of the batch that they belong to, to flags of those to stop at; or a rule."""


class Stopping:
    """The rows of a run that need no more steps, and what they stopped at."""

    def __init__(
        self, until: Until, held: HeldPositions, start: Tokens, temperature_at: Callable[[PerRow], PerRow]
    ) -> None:
        self.until, self.held, self.temperature_at = until, held, temperature_at
        self.memory = until.begin(start) if isinstance(until, StopRule) else None
        self.tokens = start.clone()
        self.done = torch.zeros(len(start), dtype=torch.bool, device=start.device)

    def offer(self, rows: Int[Tensor, "rows"], logits: Logits, t: PerRow) -> None:
        """Stop the rows whose most probable sequence is good, by the denoiser at their times t."""
        tokens = mode(logits)
        free = torch.ones_like(tokens, dtype=torch.bool)
        if self.held.tokens is not None and self.held.flags is not None:
            free = ~self.held.flags[rows]
            tokens = torch.where(free, tokens, self.held.tokens[rows])
        if isinstance(self.until, StopRule):
            offer = Offer(rows, tokens, free, logits, self.temperature_at(t))
            good, self.memory = self.until.look(offer, self.memory)
        else:
            good = self.until(tokens, rows)
        self.tokens[rows[good]] = tokens[good]
        self.done[rows[good]] = True

    def result(self, drawn: Tokens) -> Tokens:
        """Return what was drawn, and where a row has stopped, what it stopped at."""
        return torch.where(self.done.unsqueeze(1), self.tokens, drawn)
