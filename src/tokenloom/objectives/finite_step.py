r"""The bound of a chain with n steps, L_n (`eq:elbo-discrete`), as n times the term of one random step.

    L_n = sum_i KL( q(x_s | x_0, x_t) || p_theta(x_s | x_t) ),   s = (i-1)/n, t = i/n,

whose first term, s = 0, is the reconstruction -log p_theta(x_0 | x_t).  Position by position:

UDM: both laws put a constant plus spikes on the vocabulary, so with the branch weights w of the model's bridge
     sum_y log p(y) = K log(w_noise/K) + sum_y log(1 + (K w_prediction / w_noise) nu_y), spikes apart.
one-way cells, where x_t can jump, with gamma = (alpha_s - alpha_t)/(1 - alpha_t):
     all or nothing:  -gamma log mu_{x_0}
     x_0 != x_t:  -gamma log mu_{x_0} + (1 - gamma) log((1 - gamma) / (1 - gamma + gamma mu_{x_t}))
     x_0 = x_t:   -log(1 - gamma + gamma mu_{x_t})
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.couplings.markov import Markov
from tokenloom.couplings.steps import bridge
from tokenloom.objectives.base import OBJECTIVES, Objective, refuse_process
from tokenloom.objectives.token_log_probs import denoiser_log_probs, leave_one_out_log_probs, open_positions, sum_log1p
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.support.checks import check_per_row, check_same_shape
from tokenloom.support.typed import Count, checked
from tokenloom.types import PerPosition, PerRow, Tokens

Alpha = Float[Tensor, "batch 1"]


@OBJECTIVES.register("finite-step")
@dataclass(frozen=True)
class FiniteStep(Objective):
    """L_n on an even grid of n steps, for any process whose bridge is random."""

    steps: Count = 1000
    """n, the steps of the chain."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if not process.has_jump_rates:
            raise refuse_process(self, process, "given the times of its jumps there is nothing to learn about a step")
        return Denoiser, LeaveOneOut

    def times(self, t: PerRow) -> PerRow:
        """The end of the step that t falls into."""
        return (t.double() * self.steps).ceil().clamp(min=1) / self.steps

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        s = (noisy.t.double() - 1 / self.steps).clamp(min=0)
        s = torch.where(s < 0.5 / self.steps, 0, s)
        return self.steps * divergence_of_step(prediction, x_0, noisy, s, process)


@checked
def step_divergence(prediction: Posterior, x_0: Tokens, noisy: Noisy, s: PerRow, process: Process) -> PerPosition:
    """Return KL( q(x_s | x_0, x_t) || p_theta(x_s | x_t) ) of every position."""
    check_same_shape("x_0", x_0, noisy.tokens)
    check_per_row("s", s, noisy.tokens)
    return divergence_of_step(prediction, x_0, noisy, s, process)


def divergence_of_step(prediction: Posterior, x_0: Tokens, noisy: Noisy, s: PerRow, process: Process) -> PerPosition:
    """`step_divergence`, of arguments that were checked."""
    noisy = replace(noisy, alpha_t=noisy.alpha_t.double())
    alpha_s = process.alpha(s)[:, None]
    if process.uniform_noise and isinstance(process.coupling, Markov):
        loss = _uniform(prediction, x_0, noisy, alpha_s, process)
    elif process.one_way:
        loss = _one_way(prediction, x_0, noisy, alpha_s, process)
    else:
        return _any(prediction, x_0, noisy, s, process)
    return torch.where(process.evidence(noisy).isfinite(), loss, 0)


def _any(prediction: Posterior, x_0: Tokens, noisy: Noisy, s: PerRow, process: Process) -> PerPosition:
    """Compare both bridges over all states, at the positions that x_t does not reveal."""
    at, local, posterior = open_positions(prediction, noisy, process)
    model, exact = (bridge(process, local, s[at.row], end).dense() for end in (posterior, at.take(x_0)))
    terms = torch.where(exact > 0, torch.xlogy(exact, exact) - exact * model.clamp(min=1e-300).log(), 0)
    return at.put(torch.zeros_like(x_0, dtype=terms.dtype), terms.sum(-1))


def _one_way(prediction: Posterior, x_0: Tokens, noisy: Noisy, alpha_s: Alpha, process: Process) -> PerPosition:
    read = denoiser_log_probs(prediction, x_0, noisy, process)
    alpha_t = noisy.alpha_t[:, None]
    gamma = (alpha_s - alpha_t) / (1 - alpha_t)
    if process.all_or_nothing:
        return -gamma * read.clean
    kept = (1 - alpha_s) / (1 - alpha_t)
    own = read.noisy.clamp(min=-1e4)  # a mask has no mass at all
    stays = torch.logaddexp(kept.clamp(min=1e-300).log(), gamma.log() + own)
    differs = -gamma * read.clean + torch.where(kept > 0, torch.xlogy(kept, kept) - kept * stays, 0)
    return torch.where(x_0 == noisy.tokens, -stays, differs)


def _uniform(prediction: Posterior, x_0: Tokens, noisy: Noisy, alpha_s: Alpha, process: Process) -> PerPosition:
    size, alpha_t = process.vocab_size, noisy.alpha_t[:, None]
    read = leave_one_out_log_probs(prediction, x_0, noisy, process)
    same = x_0 == noisy.tokens
    mass = (1 - alpha_t) / size
    renewed = torch.where(alpha_s > 0, (alpha_s - alpha_t) / (alpha_s * (1 - alpha_t)).clamp(min=1e-300), 0)
    # Stay, prediction and noise of the model's bridge, and of the bridge given x_0, by their masses at x_t.
    moved, exact_moved = (renewed * mass / (alpha_t * own + mass) for own in (read.noisy.exp(), same.double()))
    stay, jump, fresh = 1 - moved, alpha_s * moved, (1 - alpha_s) * moved
    exact_stay, exact_jump, exact_fresh = 1 - exact_moved, alpha_s * exact_moved, (1 - alpha_s) * exact_moved
    log_noisy = torch.log(stay + jump * read.noisy.exp() + fresh / size)
    log_clean = torch.where(same, log_noisy, torch.log(jump * read.clean.exp() + fresh / size))
    law_noisy = exact_stay + exact_fresh / size + torch.where(same, exact_jump, 0)
    law_clean = torch.where(same, 0, exact_jump + exact_fresh / size)
    some_fresh = torch.where(alpha_s < 1, fresh, 1)  # at s = 0 the reconstruction is taken
    base, scale = (some_fresh / size).log(), size * jump / some_fresh
    plain_noisy = base + torch.log1p(scale * read.noisy.exp())
    plain_clean = torch.where(same, 0, base + torch.log1p(scale * read.clean.exp()))
    others = size * base + sum_log1p(read, scale) - plain_noisy - plain_clean
    count = size - 2 + same.double()
    law_other = exact_fresh / size
    divergence = (
        torch.xlogy(law_noisy, law_noisy)
        - law_noisy * log_noisy
        + torch.xlogy(law_clean, law_clean)
        - law_clean * log_clean
        + count * torch.xlogy(law_other, law_other)
        - law_other * others
    )
    return torch.where(alpha_s == 1, -log_clean, divergence)
