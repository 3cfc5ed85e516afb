r"""Cross-entropy of the denoiser, -log mu_{x_0} (`eq:cross-entropy-training`).

A network that predicts the leave-one-out posterior is read as a denoiser through the evidence at x_t
(`eq:udm-loo-to-denoiser-matrix`), so the unique minimiser of its cross-entropy is the leave-one-out posterior.
Revealed positions cost 0.

A weight (1 - alpha_t)^-w moves it towards the bounds, whose weight is about 1/(1 - alpha_t): w = 0 is the plain
cross-entropy.  The minimiser stays what it is.
"""

from dataclasses import dataclass

import torch

from tokenloom.objectives.base import OBJECTIVES, Objective, refuse_causal
from tokenloom.objectives.token_log_probs import denoiser_log_probs
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.support.typed import UnitInterval
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("ce")
@dataclass(frozen=True)
class CrossEntropy(Objective):
    """-log mu_{x_0}, for any process."""

    weight: UnitInterval = 0.0
    """The w above, in [0, 1]."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        refuse_causal(self, process)
        return Denoiser, LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        read = denoiser_log_probs(prediction, x_0, noisy, process)
        lost = (1 - noisy.alpha_t.double()[:, None]).clamp(min=1e-6)
        return torch.where(read.is_open, -read.clean * lost**-self.weight, 0)
