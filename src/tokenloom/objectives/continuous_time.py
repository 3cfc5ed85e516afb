r"""Continuous-time bounds: by the reverse rates of any coupling, and in closed form where there is one.

    sum_{y != x} { r(y) - r(y | x_0) + r(y | x_0) log(r(y | x_0) / r(y)) },      x = x_t,      (`eq:ctmc-specific-elbo`)

r the rate of the reverse chain given the prediction, r(. | x_0) given x_0.  With exact posteriors its integral is the
negative log-likelihood of a Markov chain.  `RateNELBO` sums over all states; the others say the same in a few numbers
of a row of logits.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from tokenloom.couplings.markov import Markov
from tokenloom.couplings.steps import reverse_rates
from tokenloom.noise.law import MaskOrUniformLaw, UniformLaw
from tokenloom.objectives.base import OBJECTIVES, Objective, interior, refuse_causal, refuse_process
from tokenloom.objectives.token_log_probs import (
    TokenLogProbs,
    denoiser_log_probs,
    leave_one_out_log_probs,
    open_positions,
    sum_log1p,
    weighted_log1p,
)
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import PerPosition, Tokens


@OBJECTIVES.register("rate-nelbo")
@dataclass(frozen=True)
class RateNELBO(Objective):
    """The continuous-time bound of any process whose reverse chain jumps at random times."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not process.has_jump_rates:
            raise refuse_process(self, process, "it does not jump at random times")
        return Denoiser, LeaveOneOut, Score

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        inner, inside = interior(noisy)
        local, posterior, where = open_positions(prediction, inner, process)
        model = reverse_rates(process, local, posterior).off_diagonal()
        exact = reverse_rates(process, local, x_0[where].unsqueeze(1)).off_diagonal()
        possible = exact > 0
        log_ratio = torch.where(possible, exact, 1).log() - torch.where(possible, model, 1).clamp(min=1e-300).log()
        loss = (model - exact + exact * log_ratio).sum(-1)
        blank = torch.zeros(noisy.tokens.shape, device=loss.device, dtype=loss.dtype)
        return torch.where(inside, blank.masked_scatter(where, loss), 0)


@OBJECTIVES.register("jump-nelbo")
@dataclass(frozen=True)
class JumpNELBO(Objective):
    """The continuous-time bound of masks and of the maximal, absorbing and transition-time couplings.

    Their reverse jump lands on a draw of the denoiser.  With lambda the rate of renewal, at positions that can still
    jump (a mask; x_t = U; a lost token; w > 0),

        lambda { 1 - mu_{x_t} - [x_0 != x_t] (1 + log mu_{x_0}) }            maximal and absorbing coupling
        -lambda log mu_{x_0}                                                 masks, and transition times for every noise

    (`eq:absorbing-ctmc-loss`, `eq:max-coupling-ctmc-loss`).  At the exact posterior they are tight, except that of the
    maximal coupling where some clean token has 0 < w < 1.
    """

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not process.one_way:
            raise refuse_process(self, process, "it is for chains that jump once, to x_0; use nelbo")
        return Denoiser, LeaveOneOut

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        read = denoiser_log_probs(prediction, x_0, noisy, process)
        loss = -read.clean
        if not process.all_or_nothing:
            loss = -torch.expm1(read.noisy) - torch.where(x_0 != noisy.tokens, 1 + read.clean, 0)
        alpha = noisy.alpha_t.double()
        rate, _ = process.path.rates(process, replace(noisy, alpha_t=torch.where(alpha < 1, alpha, 0.5)))
        return torch.where(read.is_open, rate * loss, 0)


@OBJECTIVES.register("markov-nelbo")
@dataclass(frozen=True)
class MarkovNELBO(Objective):
    """The continuous-time bound of the Markov coupling, for any noise, in one pass over the logits.

    With g = alpha [. = x_0] + m and f = alpha nu + m, the laws of x_t^l given x_0 and given the other positions,
    x = x_t and (log h)' the rate of renewal,

        (log h)' (m_x / g_x) { KL(g || f) + psi(log(g_x / f_x)) },      psi(d) = e^d - 1 - d;      0 where m_x = 0.

        KL(g || f) = (alpha + m) log(1 + alpha/m) - alpha log(1 + alpha nu/m)  at x_0   (-alpha log nu where m = 0)
                     - sum over m_y > 0 of m_y log(1 + alpha nu_y / m_y)

    A denoiser is read as the leave-one-out posterior it stands for; that is the bound of the bridge averaged over it,
    written in denoiser coordinates (`eq:marginalization-ct-elbo-linear-bridge`).
    """

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


@OBJECTIVES.register("score-entropy")
@dataclass(frozen=True)
class ScoreEntropy(Objective):
    """The continuous-time bound of `Uniform` and `Masked` from a score network, which predicts log-ratios z.

        beta pi_x sum_{y != x} { exp(z_y) - s(y) z_y + s(y) (log s(y) - 1) },      x = x_t,

    s(y) = q(y | x_0) / q(x | x_0) the conditional score.  UDM: s is 1/rho if x_0 = x, else rho at x_0 and 1 elsewhere,
    with rho = 1 + K alpha/(1 - alpha).  MDM, at a mask: s is alpha/(1 - alpha) at x_0 and 0 elsewhere.
    """

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
