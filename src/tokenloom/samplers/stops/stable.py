r"""Stable and confident, where DiffusionGemma stops: the most probable sequence has not changed, and little is open.

    stop where  argmax mu_i = argmax mu_j  for each of the last `stability` evaluations j before i,
    and         the mean of H(p) over the free positions is below `confidence`, p proportional to mu^(1/T),

with mu the denoiser and T the temperature of the predictor (`entropy-bound` has one, others draw at 1).
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.samplers.stopping import STOPS, Offer, StopRule
from tokenloom.support.typed import Limit, NotNegative
from tokenloom.types import Tokens

History = Int[Tensor, "stability batch length"]
"""The most probable sequences of each row at its last evaluations, -1 before the first."""


@STOPS.register("stable")
@dataclass(frozen=True)
class Stable(StopRule):
    """Stop a row once its most probable sequence stays the same and the model is sure of it."""

    stability: Annotated[int, Limit("at least 0", 0)] = 1
    """Evaluations before this one that must have had the same most probable sequence."""
    confidence: NotNegative = 0.005
    """The mean entropy of a free position must be below this, in nats."""

    def begin(self, start: Tokens) -> History:
        return start.new_full((self.stability, *start.shape), -1)

    def look(self, offer: Offer, memory: History) -> tuple[Bool[Tensor, "rows"], History]:
        before = memory[:, offer.rows]
        stable = (before == offer.tokens).all(2).all(0)
        memory = memory.index_copy(1, offer.rows, torch.cat([before, offer.tokens[None]])[1:])
        confident = offer.entropy.sum(1) < self.confidence * offer.free.sum(1)
        return stable & confident, memory
