r"""The few numbers a loss needs of a row of logits: log p at x_t, log p at x_0 and the normaliser.

A network in the other representation is read through a shift d of its logit at x_t (d = evidence from leave-one-out to
denoiser, d = -evidence back): the shifted row is never formed, only its normaliser

    log sum_y exp(z_y + d [y = x_t]) = log(exp(others) + exp(z_{x_t} + d)),

with `others` the normaliser without x_t.  All of it stays finite for any finite d.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior
from tokenloom.processes.base import Process
from tokenloom.state import Noisy
from tokenloom.support.log_space import log_total
from tokenloom.types import PerPosition, Tokens

LIMIT = 60.0
"""exp of it is far from overflow, and log(1 + exp(x)) = x beyond it."""


@dataclass(frozen=True)
class TokenLogProbs:
    """log p at the noisy and at the clean token, after the shift; float64 scalars over float32 logits."""

    logits: Float[Tensor, "batch length vocab"]
    shift: Float[Tensor, "batch length"]
    normaliser: Float[Tensor, "batch length"]
    noisy: Float[Tensor, "batch length"]
    clean: Float[Tensor, "batch length"]


def denoiser_log_probs(prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> TokenLogProbs:
    """Of the denoiser, whichever of the two the network predicts; revealed positions are read unshifted."""
    return _read(
        prediction, x_0, noisy, process, _finite_evidence(noisy, process) * isinstance(prediction, LeaveOneOut)
    )


def leave_one_out_log_probs(prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> TokenLogProbs:
    """Of the leave-one-out posterior, whichever of the two the network predicts; likewise."""
    return _read(prediction, x_0, noisy, process, -_finite_evidence(noisy, process) * isinstance(prediction, Denoiser))


def _finite_evidence(noisy: Noisy, process: Process) -> PerPosition:
    evidence = process.evidence(noisy).double()
    return evidence.masked_fill(evidence.isposinf(), 0)


def _read(prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process, shift: PerPosition) -> TokenLogProbs:
    assert isinstance(prediction, OverTokens)
    logits = process.restrict(prediction.logits)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    is_token = noisy.tokens < logits.shape[-1]
    index = torch.where(is_token, noisy.tokens, 0).unsqueeze(-1)
    own = logits.gather(-1, index).squeeze(-1).double()
    clean = logits.gather(-1, x_0.unsqueeze(-1)).squeeze(-1).double()
    shift = torch.where(is_token, shift, 0)
    normaliser = _shifted(logits.logsumexp(-1).double(), own, shift, logits, index)
    noisy_log_prob = torch.where(is_token, own + shift - normaliser, -torch.inf)
    clean_log_prob = clean + shift * (x_0 == noisy.tokens) - normaliser
    return TokenLogProbs(logits, shift, normaliser, noisy_log_prob, clean_log_prob)


def _shifted(normaliser: Tensor, own: Tensor, shift: Tensor, logits: Tensor, index: Tensor) -> Tensor:
    """The normaliser after the shift at x_t: lse + log(1 + p (e^d - 1)).

    For d < 0 and p near 1 that is a difference of almost equal numbers; there the other tokens are summed apart.
    """
    share = torch.exp(own - normaliser)
    near = ((shift < 0) & (share.detach() > 0.5)).nonzero(as_tuple=True)
    simple = normaliser + torch.log1p(share * torch.expm1(shift).clamp(min=-1 + 1e-12))
    if not len(near[0]):
        return simple
    others = log_total(logits[near].scatter(-1, index[near], -torch.inf))
    return simple.index_put(near, torch.logaddexp(others.double(), own[near] + shift[near]))


def sum_log1p(read: TokenLogProbs, x_t: Tokens, scale: PerPosition) -> PerPosition:
    """sum_y log(1 + scale p_y) over the vocabulary, p the shifted law: one softplus per logit.

    Before its shift the logit at x_t may lie far above the shifted normaliser, where exp overflows; both terms cut it
    at the same `LIMIT`, and it cancels.
    """
    offset = (scale.log() - read.normaliser).unsqueeze(-1)
    total: Tensor = _SumSoftplus.apply(read.logits, offset.to(read.logits.dtype))  # type: ignore[no-untyped-call]
    own = read.logits.gather(-1, x_t.unsqueeze(-1)).double() + offset
    shifted, plain = own + read.shift.unsqueeze(-1), own.clamp(max=LIMIT)
    moved = torch.nn.functional.softplus(shifted) - torch.nn.functional.softplus(plain)
    return total.double() + moved.squeeze(-1)


class _SumSoftplus(torch.autograd.Function):
    """sum_y log(1 + exp(z_y + c)) in place on one copy of z, z + c cut at `LIMIT`, and its gradient likewise."""

    @staticmethod
    def forward(ctx: FunctionCtx, logits: Tensor, offset: Tensor) -> Tensor:
        ctx.save_for_backward(logits, offset)
        return (logits + offset).clamp_(max=LIMIT).exp_().log1p_().sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, slope: Tensor) -> tuple[Tensor, Tensor]:
        logits, offset = ctx.saved_tensors  # type: ignore[attr-defined]
        terms = logits + offset
        to_logits = terms.masked_fill_(terms > LIMIT, -torch.inf).sigmoid_().mul_(slope.unsqueeze(-1))
        return to_logits, to_logits.sum(-1, keepdim=True)
