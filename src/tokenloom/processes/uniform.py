"""Uniform diffusion (UDM): a lost token becomes uniform on the vocabulary, pi = 1/K."""

from dataclasses import dataclass

from tokenloom.noise import Noise, UniformNoise
from tokenloom.processes.base import Process
from tokenloom.state import Noisy


@dataclass(frozen=True)
class Uniform(Process):
    """UDM on K tokens.

    The leave-one-out posterior plugged in and the denoiser averaged over give the same reverse chain (`prop:loo`).
    """

    def noise(self, noisy: Noisy) -> Noise:
        return UniformNoise(self.vocab_size, noisy.tokens.device, noisy.alpha_t.dtype)
