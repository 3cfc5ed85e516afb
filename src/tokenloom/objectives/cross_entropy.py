r"""Cross-entropies: minus the logarithm of the probability that a prediction gives to one token.

    CrossEntropy    -log mu_{x_0}                                 x_0 under the denoiser (`eq:cross-entropy-training`)
    NextToken       -log p(x^l | x^{<l})                          under a causal network, whose likelihood is their sum
    RatioMatching   -log p_t(x_t^l | x_t^{-l}) = -log(alpha nu_{x_t} + (1 - alpha)/K)      (`eq:crm-sampled-loss`)

A network that predicts the leave-one-out posterior is read as a denoiser through the evidence at x_t
(`eq:udm-loo-to-denoiser-matrix`), so the unique minimiser of its cross-entropy is the leave-one-out posterior.
"""

import math
from dataclasses import dataclass

import torch

from tokenloom.objectives.base import OBJECTIVES, Objective, refuse_causal, refuse_process
from tokenloom.objectives.token_log_probs import denoiser_log_probs, leave_one_out_log_probs
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.support.typed import UnitInterval
from tokenloom.types import PerPosition, PerRow, Tokens


@OBJECTIVES.register("ce")
@dataclass(frozen=True)
class CrossEntropy(Objective):
    """-log mu_{x_0}, for any process; revealed positions cost 0.

    A weight (1 - alpha_t)^-w moves it towards the bounds, whose weight is about 1/(1 - alpha_t): w = 0 is the plain
    cross-entropy.  The minimiser stays what it is.
    """

    weight: UnitInterval = 0.0
    """The w above, in [0, 1]."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        refuse_causal(self, process)
        return Denoiser, LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        read = denoiser_log_probs(prediction, x_0, noisy, process)
        lost = (1 - noisy.alpha_t.double()[:, None]).clamp(min=1e-6)
        return torch.where(read.is_open, -read.clean * lost**-self.weight, 0)


@OBJECTIVES.register("next-token")
@dataclass(frozen=True)
class NextToken(Objective):
    """Exact negative log-likelihood of a causal network, which trains a baseline through the same pipeline.

    Its output at position l sees the tokens before l only, so nothing is corrupted or shifted here.
    """

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


@OBJECTIVES.register("crm")
@dataclass(frozen=True)
class RatioMatching(Objective):
    """The negative log-likelihood of each noisy token given the others (`eq:crm-loo-parameterization`).

    Only right for a hollow network: one that sees its own x_t^l lowers this loss by copying it.
    """

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
