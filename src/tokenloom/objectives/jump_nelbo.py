r"""Continuous-time bounds of the processes whose reverse jump lands on a draw of the denoiser.

With lambda = -alpha'/(1 - alpha), at positions that can still jump (a mask; x_t = U; all of max coupling)

    lambda { 1 - mu_{x_t} - [x_0 != x_t] (1 + log mu_{x_0}) }

(`eq:absorbing-ctmc-loss`, `eq:max-coupling-ctmc-loss`).  For MDM mu gives the mask no mass and -lambda log mu_{x_0}
remains.  The bounds of MDM and AUDM are tight at the exact posterior; that of max coupling is not.
"""

from dataclasses import dataclass

import torch

from tokenloom.objectives.base import OBJECTIVES, Objective, refuse_process
from tokenloom.objectives.token_log_probs import denoiser_log_probs
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("jump-nelbo")
@dataclass(frozen=True)
class JumpNELBO(Objective):
    """The continuous-time bound of `Masked`, `AbsorbingUniform`, `MaxCoupling` and other one-way chains."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not (process.one_way and process.has_jump_rates):
            raise refuse_process(self, process, "it is for chains that jump once, to x_0, at random times; use nelbo")
        return Denoiser, LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        read = denoiser_log_probs(prediction, x_0, noisy, process)
        alpha = noisy.alpha_t.double()[:, None]
        rate = -process.alpha_prime(noisy.t)[:, None] / (1 - torch.where(alpha < 1, alpha, 0.5))
        differs = x_0 != noisy.tokens
        loss = -torch.expm1(read.noisy) - torch.where(differs, 1 + read.clean, 0)
        return torch.where(process.evidence(noisy).isfinite(), rate * loss, 0)
