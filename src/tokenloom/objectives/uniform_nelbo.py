r"""The continuous-time bound of UDM (`eq:ctmc-specific-elbo`), in one pass over the logits.

    (beta/K) sum_{y != x} Phi(s(y), s_theta(y)),    Phi(a, b) = b - a + a log(a/b),    x = x_t,

with kappa = K alpha/(1 - alpha), rho = 1 + kappa, r_y = 1 + kappa nu_y: the model's score is s_theta(y) = r_y / r_x,
and the conditional score s(y) is 1/rho for every y if x_0 = x, else rho at x_0 and 1 elsewhere.  Hence, with
R = sum_y log r_y, and since sum_y r_y = K + kappa,

    sum s_theta = (K - 1 + kappa (1 - nu_x)) / r_x
    x_0 = x:   sum s = (K-1)/rho         sum s log(s/s_theta) = (K log r_x - R - (K-1) log rho) / rho
    x_0 != x:  sum s = rho + K - 2     sum s log(s/s_theta) = rho log rho + (K+kappa) log r_x - R - kappa log r_{x_0}.

A denoiser is read as the leave-one-out posterior it stands for; that is the bound of the barycentric bridge, written in
denoiser coordinates (`eq:marginalization-ct-elbo-linear-bridge`).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from tokenloom.objectives.base import OBJECTIVES, Objective, interior, refuse_process
from tokenloom.objectives.token_log_probs import leave_one_out_log_probs, sum_log1p
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("uniform-nelbo")
@dataclass(frozen=True)
class UniformNELBO(Objective):
    """The continuous-time bound of `Uniform`, from either representation."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not (process.uniform_noise and process.markov and not process.lifted):
            raise refuse_process(self, process, "it is for Markov chains with uniform noise; use nelbo")
        return Denoiser, LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        size, (alpha, inside) = process.vocab_size, interior(noisy)
        beta = -process.alpha_prime(noisy.t)[:, None] / alpha
        kappa = size * alpha / (1 - alpha)
        rho = 1 + kappa
        read = leave_one_out_log_probs(prediction, x_0, noisy, process)
        log_r_noisy = F.softplus(kappa.log() + read.noisy)
        log_r_clean = F.softplus(kappa.log() + read.clean)
        log_r_sum = sum_log1p(read, kappa.expand_as(read.noisy))
        score = (size - 1 - kappa * torch.expm1(read.noisy)) * torch.exp(-log_r_noisy)
        same = (size * log_r_noisy - log_r_sum - (size - 1) * (rho.log() + 1)) / rho
        other = rho * rho.log() + (size + kappa) * log_r_noisy - log_r_sum - kappa * log_r_clean - rho - size + 2
        loss = score + torch.where(x_0 == noisy.tokens, same, other)
        return torch.where(inside & process.evidence(noisy).isfinite(), beta / size * loss, 0)
