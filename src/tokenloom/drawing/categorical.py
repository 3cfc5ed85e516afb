r"""The one way a token is drawn: inversion of the cumulative law, in two levels.

With weights w and u uniform on [0, 1), the draw is the first index i with w_0 + ... + w_i > u * sum(w).  An index of
weight 0 is never the first to exceed, so it is never drawn.

A float32 cumulative sum over a large vocabulary cannot tell apart events rarer than about 6e-8, nor can a float32
Gumbel race; float64 over the vocabulary is exact and slow.  Here the vocabulary is cut into blocks.  Block sums are
float32 sums of positive terms (relative error about 1e-7 each, however small), the block is found by inversion in
float64 over the few block sums, and the token by inversion in float64 inside the chosen block.  The law is exact to the
rounding of the probabilities themselves, at the cost of one float32 softmax, and takes one uniform number per position.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.chunks import by_chunks
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.support.checks import check_finite_maximum
from tokenloom.support.typed import checked

BLOCK = 256


@checked
def draw(logits: Float[Tensor, "*shape vocab"], generator: Randomness | None = None) -> Int[Tensor, "*shape"]:
    """Draw one token per row from softmax(logits)."""
    check_finite_maximum("logits", logits)
    return invert(probabilities(logits), uniform(tuple(logits.shape[:-1]), generator, logits.device))


def draw_each(
    logits: Float[Tensor, "rows vocab"], u: Float[Tensor, "chosen"], index: Int[Tensor, "chosen"] | None = None
) -> Int[Tensor, "chosen"]:
    """Draw one token from softmax(logits) in every row, or in the rows of an index, from its uniform number."""

    def drawn(part: slice) -> Tensor:
        return invert(probabilities(logits[part if index is None else index[part]]), u[part])

    return by_chunks(len(u), logits.shape[-1], drawn)


def draw_uniform_tokens(u: Float[Tensor, "*shape"], vocab_size: int) -> Int[Tensor, "*shape"]:
    """Turn uniform numbers into tokens uniform on 0..vocab_size-1."""
    return (u * vocab_size).long().clamp(max=vocab_size - 1)


def probabilities(logits: Float[Tensor, "*shape vocab"]) -> Float[Tensor, "*shape vocab"]:
    """softmax(logits) in float32: every probability down to 1e-38 with a relative error of about 1e-7."""
    return torch.softmax(logits, -1, dtype=torch.float32)


def invert(weights: Float[Tensor, "*shape vocab"], u: Float[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """Return the index where the cumulative law of `weights` (not negative, any positive sum) first exceeds `u`."""
    vocab_size = weights.shape[-1]
    if vocab_size <= 2 * BLOCK:
        return _invert_directly(weights, u)[0]
    full = vocab_size // BLOCK * BLOCK
    sums = weights[..., :full].view(*weights.shape[:-1], full // BLOCK, BLOCK).sum(-1)
    rest = weights[..., full:].sum(-1, keepdim=True)
    block, within = _invert_directly(torch.cat([sums, rest], -1), u)
    index = block.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=weights.device)
    inside = weights.gather(-1, index.clamp(max=vocab_size - 1)) * (index < vocab_size)
    return block * BLOCK + _invert_directly(inside, within)[0]


def invert_shared(weights: Float[Tensor, "vocab"], u: Float[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
    """`invert` for one law that all positions share: its cumulative law is formed once."""
    cumulative = weights.double().cumsum(0)
    return torch.searchsorted(cumulative, _target(cumulative, u), right=True)


def _target(cumulative: Tensor, u: Tensor) -> Tensor:
    """Return u times the total, just below the total: there the search would run past the last index."""
    total = cumulative[..., -1:]
    return torch.minimum(u.double() * total, total.nextafter(torch.zeros_like(total)))


def _invert_directly(weights: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Return the index, and where u falls inside it as a fraction in [0, 1): a uniform number for the next level."""
    cumulative = weights.double().cumsum(-1)
    target = _target(cumulative, u.unsqueeze(-1))
    index = torch.searchsorted(cumulative, target, right=True)
    share = weights.gather(-1, index).double()
    before = cumulative.gather(-1, index) - share
    within = ((target - before) / share).clamp(0, 1)
    return index.squeeze(-1), within.squeeze(-1)
