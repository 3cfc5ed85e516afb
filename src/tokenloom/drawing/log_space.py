"""Probabilities by their logarithms, accurate where a plain softmax has rounded to 0 or 1."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.chunks import chunks
from tokenloom.types import Logits, PerPosition, Tokens


def split_probability(logits: Logits, x_t: Tokens) -> tuple[PerPosition, PerPosition]:
    """Return softmax(logits) at x_t and the mass of all other tokens, each to its own relative accuracy, in float64."""
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
    # in float64 from here on: what underflows has no gradient
    own, others = own.double(), log_total(wide.scatter(-1, index, hidden)).double()
    total = torch.logaddexp(own, others)
    return (own - total).exp(), (others - total).exp()


def log_total(logits: Float[Tensor, "*shape vocab"]) -> Float[Tensor, "*shape"]:
    """Return logsumexp, with the gradient 0 rather than NaN where nothing is possible."""
    if not logits.requires_grad:
        return logits.logsumexp(-1)
    nothing = logits.detach().amax(-1) == -torch.inf
    return logits.masked_fill(nothing.unsqueeze(-1), 0).logsumexp(-1).masked_fill(nothing, -torch.inf)
