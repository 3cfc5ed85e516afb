"""Probabilities by their logarithms, accurate where a plain softmax has rounded to 0 or 1."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.support.chunks import chunks
from tokenloom.support.waiting import surely_none

Logits = Float[Tensor, "batch length vocab"]
PerPosition = Float[Tensor, "batch length"]
Tokens = Int[Tensor, "batch length"]


def add_evidence(logits: Logits, x_t: Tokens, evidence: PerPosition) -> Logits:
    """logits + evidence at x_t; a point mass on x_t where the evidence is +inf; unchanged where x_t is a mask outside
    the vocabulary."""
    is_token = x_t < logits.shape[-1]
    index = torch.where(is_token, x_t, 0).unsqueeze(-1)
    shift = torch.where(is_token & evidence.isfinite(), evidence, 0).to(logits.dtype).unsqueeze(-1)
    shifted = logits.scatter_add(-1, index, shift)
    revealed = (is_token & evidence.isposinf()).unsqueeze(-1)
    if surely_none(revealed):
        return shifted
    own = torch.where(revealed, 0, shifted.gather(-1, index))
    return shifted.masked_fill(revealed, -torch.inf).scatter(-1, index, own)


def split_probability(logits: Logits, x_t: Tokens) -> tuple[PerPosition, PerPosition]:
    """softmax(logits) at x_t, and the mass of all other tokens, each with its own relative accuracy, in float64: what
    underflows has no gradient."""
    rows, ids = logits.flatten(0, 1), x_t.flatten()
    parts = [_split_rows(rows[part], ids[part]) for part in chunks(*rows.shape)]
    own, others = (torch.cat(each).view(x_t.shape) for each in zip(*parts, strict=True))
    return own, others


def _split_rows(logits: Float[Tensor, "rows vocab"], x_t: Int[Tensor, "rows"]) -> tuple[Tensor, Tensor]:
    is_token = x_t < logits.shape[-1]
    index = torch.where(is_token, x_t, 0).unsqueeze(-1)
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    own = wide.gather(-1, index).squeeze(-1).masked_fill(~is_token, -torch.inf)
    hidden = torch.where(is_token.unsqueeze(-1), -torch.inf, wide.gather(-1, index))
    own, others = own.double(), log_total(wide.scatter(-1, index, hidden)).double()
    total = torch.logaddexp(own, others)
    return (own - total).exp(), (others - total).exp()


def log_total(logits: Float[Tensor, "*shape vocab"]) -> Float[Tensor, "*shape"]:
    """logsumexp, with the gradient 0 rather than NaN where nothing is possible."""
    total = logits.logsumexp(-1)
    nothing = total == -torch.inf
    if surely_none(nothing):
        return total
    return logits.masked_fill(nothing.unsqueeze(-1), 0).logsumexp(-1).masked_fill(nothing, -torch.inf)
