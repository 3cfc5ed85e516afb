r"""Uniform marginals under a maximal coupling: a token changes as rarely as the marginals allow.

    q(x_s, x_t | x_0) = alpha_t [x_s = x_t = x_0] + (alpha_s - alpha_t)/K [x_s = x_0] + (1 - alpha_s)/K [x_s = x_t]

(`eq:max-coupling-pair`).  Going down in time a token either stays or becomes x_0, once; going up, only a token that
still equals x_0 moves, to a uniform token.  The chain is not Markov without x_0.
"""

from dataclasses import dataclass

import torch

from tokenloom.posteriors import Denoiser, Posterior
from tokenloom.processes import bridges, rates
from tokenloom.processes.base import PROCESSES, Process
from tokenloom.processes.corruption import Endpoint
from tokenloom.processes.mixtures import Rates, branches
from tokenloom.processes.noise import Noise, UniformNoise
from tokenloom.state import Noisy
from tokenloom.support.typed import checked
from tokenloom.types import PerRow, Tokens


@PROCESSES.register("max-coupling")
@dataclass(frozen=True)
class MaxCoupling(Process):
    """UDM's marginals, another joint law; its bridge and rates average over the denoiser."""

    method = "max-coupling"
    bridge_takes = (Denoiser,)
    markov = False
    uniform_noise = one_way = True

    def noise(self, noisy: Noisy) -> Noise:
        return UniformNoise(self.vocab_size, noisy.tokens.device, noisy.alpha_t.dtype)

    def bound(self, predicts: type[Posterior]) -> str:
        return "jump-nelbo"

    @checked
    def forward_rates(self, noisy: Noisy, x_0: Tokens | None = None) -> Rates:
        """From x_0 to each other token at rate -alpha' / (1 + (K - 1) alpha); from any other token, none."""
        if x_0 is None:
            raise ValueError("MaxCoupling is not Markov: its forward rates need x_0")
        alpha, alpha_prime = noisy.alpha_t[:, None], self.alpha_prime(noisy.t)[:, None]
        rate = -alpha_prime / (alpha + (1 - alpha) / self.vocab_size) * (noisy.tokens == x_0)
        weights = branches(torch.zeros_like(rate), torch.zeros_like(rate), rate)
        return Rates(self._hold_given(weights, noisy, 0.0), noisy.tokens, noisy.tokens, self.noise(noisy))

    def _bridge_weights(self, noisy: Noisy, s: PerRow, endpoint: Endpoint) -> bridges.Weights:
        weights = bridges.max_coupling(self.alpha(s)[:, None], noisy.alpha_t[:, None])
        return weights.expand(*noisy.tokens.shape, 3)

    def _rate_weights(self, noisy: Noisy, endpoint: Endpoint) -> rates.Weights:
        weights = rates.max_coupling(noisy.alpha_t[:, None], self.alpha_prime(noisy.t)[:, None])
        return weights.expand(*noisy.tokens.shape, 3)
