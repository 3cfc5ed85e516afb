r"""Figures of samples that need no model.

    unigram entropy of a sample x^1..x^L:    H = -sum_k (n_k/L) log(n_k/L),   n_k the count of token k in it, in nats,

is the horizontal axis of a generative frontier, averaged over samples (never over their pooled counts, which would not
see that every sample repeats itself).  distinct-n is the share of different n-grams among all n-grams of all samples.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def unigram_entropy(tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch"]:
    """Return the entropy of every sample's own token frequencies, in nats; at most log(length)."""
    if not tokens.numel():
        raise ValueError(f"samples must have at least one token, got the shape {list(tokens.shape)}")
    counts = [torch.unique(row, return_counts=True)[1].double() for row in tokens]
    return torch.stack([torch.special.entr(count / count.sum()).sum() for count in counts])


def distinct(tokens: Int[Tensor, "batch length"], n: int) -> float:
    """Return the share of different n-grams among all n-grams; n-grams do not cross samples."""
    if not 1 <= n <= tokens.shape[1] or not len(tokens):
        raise ValueError(f"n must be in 1..{tokens.shape[1]}, the length of a sample, got {n}")
    grams = tokens.unfold(1, n, 1).flatten(0, 1)
    return len(torch.unique(grams, dim=0)) / len(grams)
