"""The autoregressive loss, -log p(x^l | x^{<l}), so that a baseline trains through the same pipeline.

The network is causal: its output at position l sees the tokens before l only, so nothing is corrupted or shifted here.
"""

from dataclasses import dataclass
from typing import ClassVar

from tokenloom.drawing.randomness import Randomness
from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.token_log_probs import leave_one_out_log_probs
from tokenloom.posteriors import LeaveOneOut, Posterior
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, PerRow, Tokens


@OBJECTIVES.register("next-token")
@dataclass(frozen=True)
class NextToken(Objective):
    """Exact negative log-likelihood of a causal network."""

    sequential: ClassVar[bool] = True
    exact: ClassVar[bool] = True

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        return (LeaveOneOut,)

    def corrupt(
        self, process: Process, x_0: Tokens, t: PerRow, generator: Randomness | None = None, given: Flags | None = None
    ) -> Noisy:
        """The clean tokens, whatever t."""
        return process.corrupt(x_0, 0 * t, generator, given)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        return -leave_one_out_log_probs(prediction, x_0, noisy, process).clean
