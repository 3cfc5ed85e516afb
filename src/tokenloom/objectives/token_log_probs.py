r"""The few numbers a loss needs of a row of logits: log p at x_t, log p at x_0 and a normaliser.

A network in the other representation is read through a shift d of its logit at x_t (d = evidence from leave-one-out to
denoiser, d = -evidence back): the shifted row is never formed, only its normaliser.  With z the log-probabilities

    log sum_y exp(z_y + d [y = x_t]) = log(exp(others) + exp(z_{x_t} + d)),

`others` being the mass without x_t.  All of it stays finite for any finite d.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

from tokenloom.drawing.log_space import log_total
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior, Score, as_posterior, convert_at
from tokenloom.process import Process
from tokenloom.state import Noisy, Positions
from tokenloom.types import PerPosition, Tokens

LIMIT = 60.0
"""exp of it is far from overflow, and log(1 + exp(x)) = x beyond it."""


@dataclass(frozen=True)
class TokenLogProbs:
    """log p at the noisy and at the clean token, after the shift; float64 scalars over float32 rows."""

    rows: Float[Tensor, "batch length vocab"]
    """log p before the shift."""
    index: Int[Tensor, "batch length 1"]
    """x_t; some token where x_t is a mask."""
    own: Float[Tensor, "batch length"]
    """log p before the shift at `index`."""
    shift: Float[Tensor, "batch length"]
    normaliser: Float[Tensor, "batch length"]
    """The normaliser of the shifted row; 0 without a shift."""
    noisy: Float[Tensor, "batch length"]
    clean: Float[Tensor, "batch length"]
    is_open: Bool[Tensor, "batch length"]
    """Flags of the positions where x_t does not reveal x_0."""


def denoiser_log_probs(prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> TokenLogProbs:
    """Read the denoiser, whichever of the two the network predicts; revealed positions are read unshifted."""
    return _read(prediction, x_0, noisy, process, float(isinstance(prediction, LeaveOneOut)))


def leave_one_out_log_probs(prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> TokenLogProbs:
    """Read the leave-one-out posterior, whichever of the two the network predicts; likewise."""
    return _read(prediction, x_0, noisy, process, -float(isinstance(prediction, Denoiser)))


def _read(prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process, sign: float) -> TokenLogProbs:
    evidence = process.evidence(noisy).double()
    is_open = evidence.isfinite()
    shift = sign * torch.where(is_open, evidence, 0)
    assert isinstance(prediction, OverTokens)
    logits = prediction.logits.to(torch.promote_types(prediction.logits.dtype, torch.float32))
    is_token = noisy.tokens < logits.shape[-1]
    index = torch.where(is_token, noisy.tokens, 0).unsqueeze(-1)
    rows, own, clean = _LogProbs.apply(logits, index, x_0.unsqueeze(-1))  # type: ignore[no-untyped-call]
    shift = torch.where(is_token, shift, 0)
    normaliser = _normaliser(own, shift, rows, index)
    noisy_log_prob = torch.where(is_token, own + shift - normaliser, -torch.inf)
    clean_log_prob = clean + shift * (x_0 == noisy.tokens) - normaliser
    return TokenLogProbs(rows, index, own, shift, normaliser, noisy_log_prob, clean_log_prob, is_open)


class _LogProbs(torch.autograd.Function):
    """log_softmax, and its float64 entries at two tokens; the gradient of all three is formed in one tensor.

    With g the gradient for the rows and for the entries together, that of the logits is g - softmax sum(g).
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows = torch.log_softmax(logits, -1)
        ctx.save_for_backward(rows, first, second)
        ctx.set_materialize_grads(False)
        own, clean = (rows.gather(-1, index).squeeze(-1).double() for index in (first, second))
        return rows, own, clean

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_rows: Tensor | None, *to_entries: Tensor | None) -> tuple[Tensor | None, ...]:
        rows, *indices = ctx.saved_tensors
        entries = [
            (index, slope.unsqueeze(-1).to(rows.dtype))
            for index, slope in zip(indices, to_entries, strict=True)
            if slope is not None
        ]
        total: Any = sum((slope for _, slope in entries), 0.0 if to_rows is None else to_rows.sum(-1, keepdim=True))
        gradient = rows.exp().mul_(-total)
        if to_rows is not None:
            gradient.add_(to_rows)
        for index, slope in entries:
            gradient.scatter_add_(-1, index, slope)
        return gradient, None, None


def _normaliser(own: Tensor, shift: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """log(1 + p (e^d - 1)), p the mass at x_t before the shift d.

    For d < 0 and p near 1 that is a difference of almost equal numbers; there the other tokens are summed apart.
    """
    share = own.exp()
    near = ((shift < 0) & (share.detach() > 0.5)).nonzero(as_tuple=True)
    simple = torch.log1p(share * torch.expm1(shift).clamp(min=-1 + 1e-12))
    if not len(near[0]):
        return simple
    others = log_total(rows[near].scatter(-1, index[near], -torch.inf))
    return simple.index_put(near, torch.logaddexp(others.double(), own[near] + shift[near]))


def sum_log1p(read: TokenLogProbs, scale: PerPosition) -> PerPosition:
    """sum_y log(1 + scale p_y) over the vocabulary, p the shifted law: one softplus per token.

    Before its shift the entry at x_t may lie far above the shifted normaliser, where exp overflows; both terms cut it
    at the same `LIMIT`, and it cancels.
    """
    offset = scale.log() - read.normaliser
    total: Tensor = _SumSoftplus.apply(read.rows, offset.unsqueeze(-1).to(read.rows.dtype))  # type: ignore[no-untyped-call]
    own = read.own + offset
    shifted, plain = own + read.shift, own.clamp(max=LIMIT)
    return total.double() + torch.nn.functional.softplus(shifted) - torch.nn.functional.softplus(plain)


def weighted_log1p(
    read: TokenLogProbs, alpha: PerPosition, log_mass: Float[Tensor, "#batch #length vocab"]
) -> PerPosition:
    """sum_y m_y log(1 + alpha p_y / m_y) over the tokens with m_y > 0, p the shifted law, for any masses m."""
    own = torch.zeros_like(read.rows).scatter(-1, read.index, read.shift.to(read.rows.dtype).unsqueeze(-1))
    log_p = read.rows + own - read.normaliser.to(read.rows.dtype).unsqueeze(-1)
    possible = log_mass > -torch.inf
    ratio = alpha.log().unsqueeze(-1) + log_p.double() - torch.where(possible, log_mass, 0)
    return torch.where(possible, log_mass.exp() * torch.nn.functional.softplus(ratio), 0).sum(-1)


class _SumSoftplus(torch.autograd.Function):
    """sum_y log(1 + exp(z_y + c)), z + c cut at `LIMIT`, and its gradient in place on one copy of z."""

    @staticmethod
    def forward(ctx: FunctionCtx, rows: Tensor, offset: Tensor) -> Tensor:
        ctx.save_for_backward(rows, offset)
        return torch.nn.functional.softplus((rows + offset).clamp_(max=LIMIT)).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, slope: Tensor) -> tuple[Tensor, Tensor]:
        rows, offset = ctx.saved_tensors  # type: ignore[attr-defined]
        terms = rows + offset
        to_rows = terms.masked_fill_(terms > LIMIT, -torch.inf).sigmoid_().mul_(slope.unsqueeze(-1))
        return to_rows, to_rows.sum(-1, keepdim=True)


def open_positions(prediction: Posterior, noisy: Noisy, process: Process) -> tuple[Positions, Noisy, OverTokens]:
    """Take the positions whose clean token x_t leaves open, each as a sequence of its own, and what a step takes."""
    at = Positions.of(process.evidence(noisy).isfinite())
    values = prediction.log_ratios if isinstance(prediction, Score) else prediction.logits  # type: ignore[attr-defined]
    local = noisy.positions(at)
    posterior = as_posterior(values[at.row, at.column].unsqueeze(1), type(prediction))
    return at, local, convert_at(posterior, process.step_representation(type(prediction)), local, process)
