"""Probabilities by their logarithms, accurate where a plain softmax has rounded to 0 or 1."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.chunks import CACHED, by_chunks, chunks
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


def tempered(logits: Float[Tensor, "rows vocab"], temperature: Float[Tensor, "rows"]) -> Float[Tensor, "rows vocab"]:
    """Divide logits by a temperature per row, in float32 and with 0 at the most probable token."""
    wide = logits.float()
    coldest = torch.finfo(wide.dtype).tiny  # below it only the most probable tokens are left anyway
    return (wide - wide.amax(-1, keepdim=True)) / temperature.float().clamp(min=coldest)[:, None]


def entropy(logits: Float[Tensor, "rows vocab"], temperature: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """Return the entropy of softmax(logits / temperature), in nats: log Z - E[z] with z = 0 at the largest."""

    def part(rows: slice) -> Tensor:
        z = tempered(logits[rows], temperature[rows])
        weights = z.exp()
        total = weights.sum(-1)
        mean = (weights * z.clamp(min=-1e4)).sum(-1) / total  # what is impossible has weight 0, and 0 x inf is NaN
        return (total.log() - mean).double()

    return by_chunks(len(logits), logits.shape[1], part, CACHED)
