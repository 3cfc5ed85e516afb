r"""The continuous-time bound of every Markov cell (`eq:ctmc-specific-elbo`), in one pass over the logits.

With g = alpha [. = x_0] + m and f = alpha nu + m, the laws of x_t^l given x_0 and given the other positions, x = x_t
and (log h)' the rate of renewal,

    (log h)' (m_x / g_x) { KL(g || f) + psi(log(g_x / f_x)) },      psi(d) = e^d - 1 - d;      0 where m_x = 0.

    KL(g || f) = (alpha + m) log(1 + alpha/m) - alpha log(1 + alpha nu/m)  at x_0   (-alpha log nu where m = 0 there)
                 - sum over m_y > 0 of m_y log(1 + alpha nu_y / m_y)

A denoiser is read as the leave-one-out posterior it stands for; that is the bound of the bridge averaged over it,
written in denoiser coordinates (`eq:marginalization-ct-elbo-linear-bridge`).
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from tokenloom.couplings.markov import Markov
from tokenloom.noise.law import MaskOrUniformLaw, UniformLaw
from tokenloom.objectives.base import OBJECTIVES, Objective, interior, refuse_process
from tokenloom.objectives.token_log_probs import TokenLogProbs, leave_one_out_log_probs, sum_log1p, weighted_log1p
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("markov-nelbo")
@dataclass(frozen=True)
class MarkovNELBO(Objective):
    """The continuous-time bound of the Markov coupling, for any noise."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not isinstance(process.coupling, Markov):
            raise refuse_process(self, process, "it is for the Markov coupling; use nelbo")
        return Denoiser, LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        noisy, inside = interior(noisy)
        read = leave_one_out_log_probs(prediction, x_0, noisy, process)
        alpha, mass = noisy.alpha_t[:, None].expand(x_0.shape), process.masses.mass(noisy)
        noise = mass > 0
        some = torch.where(noise, mass, 1)
        same = x_0 == noisy.tokens
        ratio = F.softplus((alpha / some).log() + read.noisy)  # log f_x / m_x
        gap = torch.where(same, torch.log1p(alpha / some), 0) - ratio
        divergence = _at_clean(read, alpha, process.masses.mass(replace(noisy, tokens=x_0)))
        divergence = divergence - _noise_part(read, alpha, noisy, process)
        rate = process.masses.renewal_rate(noisy) * torch.where(same, mass / (alpha + mass), 1)
        counts = inside & noise & read.is_open
        return torch.where(counts, rate * (divergence + torch.expm1(gap) - gap), 0)


def _at_clean(read: TokenLogProbs, alpha: PerPosition, mass: PerPosition) -> PerPosition:
    """The part of the divergence at x_0, where the noise has this mass."""
    some = torch.where(mass > 0, mass, 1)
    ratio = (alpha / some).log()
    usual = (alpha + some) * F.softplus(ratio) - alpha * F.softplus(ratio + read.clean)
    return torch.where(mass > 0, usual, -alpha * read.clean)


def _noise_part(read: TokenLogProbs, alpha: PerPosition, noisy: Noisy, process: Process) -> PerPosition:
    """sum over m_y > 0 of m_y log(1 + alpha nu_y / m_y); a mask has nu = 0."""
    law = process.masses.law(noisy, noisy.t)
    if isinstance(law, UniformLaw | MaskOrUniformLaw):  # one mass for all real tokens
        real = 0 if process.mask_in_vocabulary != 0 else 1
        mass = process.masses.mass(replace(noisy, tokens=torch.full_like(noisy.tokens, real)))
        return mass * sum_log1p(read, alpha / mass)
    log_mass = torch.log1p(-alpha).unsqueeze(-1) + law.log_probs(noisy.tokens.device)[..., : process.vocab_size]
    return weighted_log1p(read, alpha, log_mass)
