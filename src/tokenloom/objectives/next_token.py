"""The autoregressive loss, -log p(x^l | x^{<l}), so that a baseline trains through the same pipeline.

The network is causal: its output at position l sees the tokens before l only, so nothing is corrupted or shifted here.
"""

from dataclasses import dataclass

import torch

from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.token_log_probs import leave_one_out_log_probs
from tokenloom.posteriors import LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, PerRow, Tokens


@OBJECTIVES.register("next-token")
@dataclass(frozen=True)
class NextToken(Objective):
    """Exact negative log-likelihood of a causal network."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not process.sequential:
            raise ValueError(
                f"NextToken needs a causal network, one whose output at a position sees only what lies before it, and "
                f"{process.title} shows every position; NextToken goes with CausalTransformer"
            )
        return (LeaveOneOut,)

    def times(self, t: PerRow) -> PerRow:
        """0: the clean tokens, whatever t."""
        return torch.zeros_like(t)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        return -leave_one_out_log_probs(prediction, x_0, noisy, process).clean
