r"""What a bound pays per token for the signal that is left at t = 1 (`schedules.py` says why).

noise that covers the vocabulary:        KL(q_{1|0} || pi), which needs no network (`Process.prior_divergence`)
some token is never noise (MDM, AUDM):   the divergence of the one step that takes the prior, alpha = 0, to alpha_1

Add its mean to the mean of a continuous-time bound; both are 0 if alpha_1 = 0.
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.drawing.randomness import Randomness
from tokenloom.objectives.base import OBJECTIVES, Objective, refuse_process
from tokenloom.objectives.finite_step import step_divergence
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, PerRow, Tokens


@OBJECTIVES.register("prior-term")
@dataclass(frozen=True)
class PriorTerm(Objective):
    """The part of a bound that is paid at t = 1."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if process.bound(process.default_predicts) == "next-token":
            raise refuse_process(self, process, "its likelihood is exact")
        return (Denoiser, LeaveOneOut) if process.reveals else (Denoiser, LeaveOneOut, Score)

    def corrupt(
        self, process: Process, x_0: Tokens, t: PerRow, generator: Randomness | None = None, given: Flags | None = None
    ) -> Noisy:
        """The prior, whatever t: nothing of x_0 except its given positions."""
        process.check_clean(x_0, given)
        state = process.prior(len(x_0), x_0.shape[1], generator, x_0.device)
        tokens = state.tokens if given is None else torch.where(given, x_0, state.tokens)
        return replace(state, tokens=tokens, given=given, alpha_t=torch.zeros_like(state.alpha_t))

    def without_network(self, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition | None:
        price = process.prior_divergence(noisy, x_0)
        return price if price is None or noisy.given is None else price.masked_fill(noisy.given, 0)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        price = self.without_network(x_0, noisy, process)
        if price is not None:
            return price
        start = replace(noisy, t=process.time_at(noisy.alpha_t))  # level 0 lies after t = 1
        return step_divergence(prediction, x_0, start, torch.ones_like(noisy.t), process)


def leaves_signal(process: Process) -> bool:
    """Whether alpha_1 > 0, so that there is a term to pay."""
    return bool(process.alpha(torch.ones(1, dtype=torch.float64)) > 0)
