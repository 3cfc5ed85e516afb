"""Uniform diffusion (UDM): a lost token becomes uniform on the vocabulary, pi = 1/K."""

from dataclasses import dataclass

from tokenloom.posteriors import Posterior, Score
from tokenloom.processes.base import PROCESSES, Process
from tokenloom.processes.noise import Noise, UniformNoise
from tokenloom.state import Noisy


@PROCESSES.register("uniform")
@dataclass(frozen=True)
class Uniform(Process):
    """UDM on K tokens.

    The leave-one-out posterior plugged in and the denoiser averaged over give the same reverse chain (`prop:loo`).
    """

    method = "udm"
    default_objective = "ce"
    uniform_noise = True

    def noise(self, noisy: Noisy) -> Noise:
        return UniformNoise(self.vocab_size, noisy.tokens.device, noisy.alpha_t.dtype)

    def bound(self, predicts: type[Posterior]) -> str:
        return "score-entropy" if predicts is Score else "uniform-nelbo"
