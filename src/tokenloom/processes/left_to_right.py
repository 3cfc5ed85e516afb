r"""Writing from left to right, the order of autoregressive models: position l is written at time t = 1 - l/L.

    x_t^l = x_0^l for l <= (1 - t) L, an arbitrary token for the others,   p(x_0) = prod_l p(x_0^l | x_0^1 .. x_0^{l-1})

A causal network has not seen the token at l when it predicts x_0^l: whatever stands there says nothing (evidence 0),
and its prediction is a leave-one-out posterior.  One evaluation at the clean sequence gives all factors, so nothing
bounds anything here: the likelihood is exact.
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.posteriors import LeaveOneOut, Posterior
from tokenloom.processes import bridges, rates
from tokenloom.processes.base import PROCESSES, Process
from tokenloom.processes.corruption import Endpoint
from tokenloom.processes.forward import evidence_of, reveal_level
from tokenloom.processes.mixtures import Rates
from tokenloom.processes.noise import Noise, UniformNoise
from tokenloom.state import NetworkInput, Noisy
from tokenloom.types import PerPosition, PerRow, Tokens


@PROCESSES.register("left-to-right")
@dataclass(frozen=True)
class LeftToRight(Process):
    """The process of a causal network on K tokens."""

    method = "ar"
    default_objective = "next-token"
    bridge_takes = (LeaveOneOut,)
    sequential = True
    markov = has_jump_rates = has_rate_integral = False

    def bound(self, predicts: type[Posterior]) -> str:
        return "next-token"

    def noise(self, noisy: Noisy) -> Noise:
        return UniformNoise(self.vocab_size, noisy.tokens.device, noisy.alpha_t.dtype)

    def network_input(self, noisy: Noisy) -> NetworkInput:
        """The tokens; a causal network is not conditioned on the time."""
        return replace(super().network_input(noisy), time=torch.zeros_like(noisy.t))

    def evidence(self, noisy: Noisy) -> PerPosition:
        return evidence_of(torch.zeros_like(noisy.tokens, dtype=torch.bool), noisy)

    def own_alpha(self, noisy: Noisy) -> PerPosition:
        return reveal_level(torch.zeros_like(noisy.tokens, dtype=noisy.alpha_t.dtype), noisy)

    def written(self, t: PerRow, length: int) -> PerRow:
        """How many positions are written at time t.

        Args:
            t: The time of each row.
            length: Positions of a sequence.

        Returns:
            Whole numbers as floats, from 0 at t = 1 to `length` at t = 0.
        """
        return torch.round(length * (1 - t.double()))

    def _kept(self, noisy: Noisy) -> PerPosition:
        length = noisy.tokens.shape[1]
        position = torch.arange(length, device=noisy.tokens.device)
        return (position < self.written(noisy.t, length)[:, None]).to(noisy.alpha_t.dtype)

    def forward_rates(self, noisy: Noisy, x_0: Tokens | None = None) -> Rates:
        raise _no_step("forward rates: a position is lost at its own time")

    def _bridge_weights(self, noisy: Noisy, s: PerRow, endpoint: Endpoint) -> bridges.Weights:
        raise _no_step("bridge: each position needs the ones before it")

    def _rate_weights(self, noisy: Noisy, endpoint: Endpoint) -> rates.Weights:
        raise _no_step("reverse rates: a position is written at its own time")


def _no_step(what: str) -> ValueError:
    return ValueError(f"LeftToRight has no {what}; use the autoregressive sampler")
