r"""Categorical ratio matching (`eq:crm-sampled-loss`) of a leave-one-out network (`eq:crm-loo-parameterization`):

    -log p_t(x_t^l | x_t^{-l}) = -log(alpha nu_{x_t} + (1 - alpha)/K).

Only right for a hollow network: one that sees its own x_t^l lowers this loss by copying it.
"""

import math
from dataclasses import dataclass

import torch

from tokenloom.objectives.base import OBJECTIVES, Objective, refuse_process
from tokenloom.objectives.token_log_probs import leave_one_out_log_probs
from tokenloom.posteriors import LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("crm")
@dataclass(frozen=True)
class RatioMatching(Objective):
    """The negative log-likelihood of each noisy token given the others."""

    def check(self, process: Process, predicts: type[Posterior], hollow: bool = False) -> None:
        super().check(process, predicts, hollow)
        if not hollow:
            raise ValueError(
                "RatioMatching needs a hollow network: one whose output at a position sees that position's own token "
                "minimises this loss by copying the token; use HollowTransformer, or CrossEntropy with any network"
            )

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not process.uniform_noise or process.lifted or process.sequential:
            raise refuse_process(self, process, "it matches ratios of the uniform marginals")
        return (LeaveOneOut,)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        alpha = noisy.alpha_t.double()[:, None]
        read = leave_one_out_log_probs(prediction, x_0, noisy, process)
        noise = (torch.log1p(-alpha) - math.log(process.vocab_size)).expand_as(read.noisy)
        return -torch.logaddexp(alpha.log() + read.noisy, noise)
