"""Probabilities by their logarithms, accurate where a plain softmax has rounded to 0 or 1."""

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.chunks import CACHED, by_chunks


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
    return (wide - wide.amax(-1, keepdim=True)).div_(temperature.float().clamp(min=coldest)[:, None])


def entropy(logits: Float[Tensor, "rows vocab"], temperature: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
    """Return the entropy of softmax(logits / temperature), in nats."""
    return by_chunks(len(logits), logits.shape[1], lambda rows: heated(logits[rows], temperature[rows])[1], CACHED)


def heated(
    logits: Float[Tensor, "rows vocab"], temperature: Float[Tensor, "rows"]
) -> tuple[Float[Tensor, "rows vocab"], Float[Tensor, "rows"]]:
    """Return weights of softmax(logits / temperature) and its entropy log Z - E[z], with z = 0 at the largest."""
    z = tempered(logits, temperature).clamp_(min=-1e4)  # what is impossible has weight 0, and 0 x inf is NaN
    weights = torch.softmax(z, -1)  # faster than exp; over large vocabularies its sum may be 1e-4 off 1
    total = weights.sum(-1)
    mean: Tensor = torch.linalg.vecdot(weights, z) / total
    return weights, ((total / weights.amax(-1)).log() - mean).double()
