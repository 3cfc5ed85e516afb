"""Rows that need no more steps, because the model's most probable sequence is already good.

At every network evaluation of a row, `until` sees the most probable token of each free position under the (truncated)
denoiser, beside the given ones.  Where it agrees, this sequence is the row's result and the network is not asked about
the row again.  It is then no longer a draw from the model.  The other rows do not notice.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.samplers.given import HeldPositions
from tokenloom.types import Tokens

Until = Callable[[Tokens, Int[Tensor, "rows"]], Bool[Tensor, "rows"]]
"""A function from sequences, and the rows of the batch that they belong to, to flags of those to stop at."""


class Stopping:
    """The rows of a run that are done, and with what."""

    def __init__(self, until: Until, held: HeldPositions, start: Tokens) -> None:
        self.until, self.held = until, held
        self.tokens = start.clone()
        self.done = torch.zeros(len(start), dtype=torch.bool, device=start.device)

    def offer(self, tokens: Tokens, rows: Int[Tensor, "rows"]) -> None:
        """Stop the rows whose most probable sequence is good."""
        if self.held.tokens is not None and self.held.flags is not None:
            tokens = torch.where(self.held.flags[rows], self.held.tokens[rows], tokens)
        good = self.until(tokens, rows)
        self.tokens[rows[good]] = tokens[good]
        self.done[rows[good]] = True

    def result(self, drawn: Tokens) -> Tokens:
        """Return what was drawn, and where a row has stopped, what it stopped at."""
        return torch.where(self.done.unsqueeze(1), self.tokens, drawn)
