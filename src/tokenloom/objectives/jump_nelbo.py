r"""Continuous-time bounds of the one-way cells, whose reverse jump lands on a draw of the denoiser.

With lambda the rate of renewal, at positions that can still jump (a mask; x_t = U; a lost token; w > 0)

    lambda { 1 - mu_{x_t} - [x_0 != x_t] (1 + log mu_{x_0}) }            maximal and absorbing coupling
    -lambda log mu_{x_0}                                                 masks, and transition times for every noise

(`eq:absorbing-ctmc-loss`, `eq:max-coupling-ctmc-loss`).  At the exact posterior they are tight, except that of the
maximal coupling where some clean token has 0 < w < 1.
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.objectives.base import OBJECTIVES, Objective, refuse_process
from tokenloom.objectives.token_log_probs import denoiser_log_probs
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("jump-nelbo")
@dataclass(frozen=True)
class JumpNELBO(Objective):
    """The continuous-time bound of masks and of the maximal, absorbing and transition-time couplings."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not process.one_way:
            raise refuse_process(self, process, "it is for chains that jump once, to x_0; use nelbo")
        return Denoiser, LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        read = denoiser_log_probs(prediction, x_0, noisy, process)
        loss = -read.clean
        if not process.all_or_nothing:
            loss = -torch.expm1(read.noisy) - torch.where(x_0 != noisy.tokens, 1 + read.clean, 0)
        alpha = noisy.alpha_t.double()
        rate, _ = process.path.rates(process, replace(noisy, alpha_t=torch.where(alpha < 1, alpha, 0.5)))
        return torch.where(read.is_open, rate * loss, 0)
