r"""What a bound pays for the signal that is left at t = 1 (`schedules.py` says why), a token.

UDM, max coupling:  KL(q_{1|0} || uniform) = (alpha_1 + (1 - alpha_1)/K) log(1 + (K - 1) alpha_1)
                                             + (1 - alpha_1)(1 - 1/K) log(1 - alpha_1)
MDM, AUDM:          the divergence of the one step that takes the prior, alpha = 0, to alpha_1.

Add its mean to the mean of a continuous-time bound; both are 0 if alpha_1 = 0.
"""

from dataclasses import dataclass, replace

import torch
from torch import Generator

from tokenloom.objectives.base import Objective, refuse_process
from tokenloom.objectives.finite_step import step_divergence
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior, Score
from tokenloom.processes import AbsorbingUniform, Masked, MaskedUniform, Uniform
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, PerRow, Tokens


@dataclass(frozen=True)
class PriorTerm(Objective):
    """The part of a bound that is paid at t = 1."""

    def representations(self, process: Process) -> tuple[type[Posterior], ...]:
        if isinstance(process, MaskedUniform):
            raise refuse_process(self, process, "train MaskedUniform's network on Masked")
        if isinstance(process, Uniform):
            return Denoiser, LeaveOneOut, Score
        if isinstance(process, Masked | AbsorbingUniform):
            return Denoiser, LeaveOneOut
        raise refuse_process(self, process, "it is for Uniform, MaxCoupling, Masked and AbsorbingUniform")

    def corrupt(
        self, process: Process, x_0: Tokens, t: PerRow, generator: Generator | None = None, fixed: Flags | None = None
    ) -> Noisy:
        """The prior, whatever t: nothing of x_0 but its given positions."""
        process.check_clean(x_0, fixed)
        state = process.prior(len(x_0), x_0.shape[1], generator, x_0.device)
        tokens = state.tokens if fixed is None else torch.where(fixed, x_0, state.tokens)
        return replace(state, tokens=tokens, fixed=fixed, alpha_t=torch.zeros_like(state.alpha_t))

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        end = torch.ones_like(noisy.t)
        if isinstance(process, Uniform):
            price = uniform_prior_divergence(process.alpha(end), process.vocab_size)[:, None].expand_as(noisy.tokens)
            return price if noisy.fixed is None else price.masked_fill(noisy.fixed, 0)
        return step_divergence(prediction, x_0, noisy, end, process)


def leaves_signal(process: Process) -> bool:
    """Whether alpha_1 > 0, so that there is a term to pay."""
    return bool(process.alpha(torch.ones(1, dtype=torch.float64)) > 0)


def uniform_prior_divergence(alpha: PerRow, vocab_size: int) -> PerRow:
    """KL of q_{1|0} to the uniform law, for the level alpha at t = 1."""
    same = alpha + (1 - alpha) / vocab_size
    return same * torch.log1p((vocab_size - 1) * alpha) + (1 - same) * torch.log1p(-alpha)
