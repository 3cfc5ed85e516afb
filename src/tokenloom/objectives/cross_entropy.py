r"""Cross-entropy of the denoiser, -log mu_{x_0} (`eq:cross-entropy-training`).

A network that predicts the leave-one-out posterior is read as a denoiser through the evidence at x_t
(`eq:udm-loo-to-denoiser-matrix`), so its unique minimiser is the leave-one-out posterior.  Revealed positions cost 0.
"""

from dataclasses import dataclass

import torch

from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.token_log_probs import denoiser_log_probs
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("ce")
@dataclass(frozen=True)
class CrossEntropy(Objective):
    """-log mu_{x_0}, for any process."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        return Denoiser, LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        read = denoiser_log_probs(prediction, x_0, noisy, process)
        return torch.where(process.evidence(noisy).isfinite(), -read.clean, 0)
