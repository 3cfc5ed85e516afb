r"""The continuous-time bound of any coupling, from its reverse rates over all states (`eq:ctmc-specific-elbo`).

    sum_{y != x} { r(y) - r(y | x_0) + r(y | x_0) log(r(y | x_0) / r(y)) },      x = x_t,

r the rate of the reverse chain given the prediction, r(. | x_0) given x_0.  With exact posteriors its integral is the
negative log-likelihood of a Markov chain.  It costs a few numbers per state; `MarkovNELBO`, `JumpNELBO` and
`ScoreEntropy` say the same in a few numbers of a row of logits.
"""

from dataclasses import dataclass

import torch

from tokenloom.couplings.steps import reverse_rates
from tokenloom.objectives.base import OBJECTIVES, Objective, interior, refuse_process
from tokenloom.objectives.token_log_probs import open_positions
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("rate-nelbo")
@dataclass(frozen=True)
class RateNELBO(Objective):
    """The continuous-time bound of any process whose reverse chain jumps at random times."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not process.has_jump_rates:
            raise refuse_process(self, process, "it does not jump at random times")
        return Denoiser, LeaveOneOut, Score

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        inner, inside = interior(noisy)
        at, local, posterior = open_positions(prediction, inner, process)
        model, exact = (reverse_rates(process, local, end).off_diagonal() for end in (posterior, at.take(x_0)))
        possible = exact > 0
        log_ratio = torch.where(possible, exact, 1).log() - torch.where(possible, model, 1).clamp(min=1e-300).log()
        loss = (model - exact + exact * log_ratio).sum(-1)
        return torch.where(inside, at.put(torch.zeros_like(x_0, dtype=loss.dtype), loss), 0)
