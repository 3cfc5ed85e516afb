"""The textbook way to sample, for comparison: every law as a dense float64 [batch, length, vocab] table, every token by
the Gumbel trick, top-p by sorting the vocabulary.  Nothing here is used by the library."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

Network = Callable[[Tensor, Tensor], Tensor]


def gumbel_argmax(probabilities: Tensor) -> Tensor:
    """One token per position."""
    noise = -torch.log(-torch.log(torch.rand_like(probabilities) + 1e-30) + 1e-30)
    return (torch.log(probabilities + 1e-30) + noise).argmax(-1)


def nucleus(probabilities: Tensor, top_p: float) -> Tensor:
    """The smallest set of most probable tokens with mass top_p, renormalised."""
    ordered, index = probabilities.sort(-1, descending=True)
    ordered = torch.where(ordered.cumsum(-1) - ordered < top_p, ordered, 0)
    kept = torch.zeros_like(probabilities).scatter(-1, index, ordered)
    return kept / kept.sum(-1, keepdim=True)


def sample_uniform(network: Network, tokens: Tensor, vocab_size: int, steps: int, top_p: float = 1.0) -> Tensor:
    """UDM from tokens of noise, the leave-one-out posterior plugged into Bayes' formula; alpha_t = 1 - (1 - 1e-3) t."""
    times = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    for t, s in pairwise(times):
        nu = torch.softmax(network(tokens, t.repeat(len(tokens))).double(), -1)
        if top_p < 1:
            nu = nucleus(nu, top_p)
        alpha_t, alpha_s = 1 - 0.999 * t, 1 - 0.999 * s
        kept = alpha_t / alpha_s
        own = torch.nn.functional.one_hot(tokens, vocab_size).double()
        to_s = alpha_s * nu + (1 - alpha_s) / vocab_size
        to_t = kept * own + (1 - kept) / vocab_size
        law = to_s * to_t
        tokens = gumbel_argmax(law / law.sum(-1, keepdim=True))
    return tokens


def sample_masked(network: Network, tokens: Tensor, vocab_size: int, steps: int) -> Tensor:
    """MDM from masks, the id vocab_size; alpha_t = 1 - (1 - 1e-3) t."""
    times = torch.linspace(1, 0, steps + 1, dtype=torch.float64)
    for t, s in pairwise(times):
        mu = torch.softmax(network(tokens, t.repeat(len(tokens))).double(), -1)
        alpha_t, alpha_s = 1 - 0.999 * t, 1 - 0.999 * s
        law = torch.cat([mu * (alpha_s - alpha_t), (1 - alpha_s).expand(*tokens.shape, 1)], -1) / (1 - alpha_t)
        tokens = torch.where(tokens == vocab_size, gumbel_argmax(law), tokens)
    return tokens
