r"""Score entropy: the same bounds for a network that predicts the log-ratios themselves (`eq:ctmc-specific-elbo`).

    beta pi_x sum_{y != x} { exp(z_y) - s(y) z_y + s(y) (log s(y) - 1) },      x = x_t, z the log-ratios,

s(y) = q(y | x_0) / q(x | x_0) the conditional score.  UDM: s is 1/rho if x_0 = x, else rho at x_0 and 1 elsewhere, with
rho = 1 + K alpha/(1 - alpha).  MDM, at a mask: s is alpha/(1 - alpha) at x_0 and 0 elsewhere.
"""

from dataclasses import dataclass

import torch

from tokenloom.objectives.base import OBJECTIVES, Objective, interior, refuse_causal, refuse_process
from tokenloom.posteriors import Posterior, Score
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("score-entropy")
@dataclass(frozen=True)
class ScoreEntropy(Objective):
    """The continuous-time bound of `Uniform` and `Masked` from a score network."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if process.lifted or not process.markov or not (process.uniform_noise or process.masking):
            refuse_causal(self, process)
            raise refuse_process(self, process, "it is for Markov chains with uniform or masked noise")
        return (Score,)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        assert isinstance(prediction, Score)
        inner, inside = interior(noisy)
        alpha = inner.alpha_t[:, None]
        counts = inside & process.evidence(noisy).isfinite()
        z = prediction.log_ratios.to(torch.promote_types(prediction.log_ratios.dtype, torch.float32))
        z = torch.where(counts.unsqueeze(-1), z, 0)  # an infinity that does not count would still reach the gradient
        own = noisy.tokens.unsqueeze(-1)
        mass = z.scatter(-1, own, -torch.inf).logsumexp(-1).double().exp()
        clean = z.gather(-1, x_0.unsqueeze(-1)).squeeze(-1).double()
        beta = -process.alpha_prime(noisy.t)[:, None] / alpha
        if process.masking:
            ratio = alpha / (1 - alpha)
            loss = beta * (mass - ratio * clean + ratio * (ratio.log() - 1))
        else:
            total, size = z.scatter(-1, own, 0.0).sum(-1).double(), process.vocab_size
            rho = 1 + size * alpha / (1 - alpha)
            if_same = -total / rho - (size - 1) / rho * (rho.log() + 1)
            if_other = -total - (rho - 1) * clean + rho * (rho.log() - 1) - (size - 2)
            loss = beta / size * (mass + torch.where(x_0 == noisy.tokens, if_same, if_other))
        return torch.where(counts, loss, 0)
