"""Exact networks: of a table p_0 for every process, from the tokens and their evidence; of a Markov chain, causal."""

import torch
from torch import Tensor, nn


def from_evidence(p0: Tensor, tokens: Tensor, evidence: Tensor) -> tuple[Tensor, Tensor]:
    """The denoiser and the leave-one-out posterior, by summing p_0(x_0) prod_l (1 + (e^a_l - 1) [x_0^l = x_t^l])."""
    size, length, rows = p0.shape[0], p0.ndim, len(tokens)
    own = (tokens.unsqueeze(-1) == torch.arange(size)).double()
    known = evidence.isposinf()
    gain = torch.expm1(evidence.masked_fill(known, 0).double())
    factor = torch.where(known.unsqueeze(-1), own, 1 + gain.unsqueeze(-1) * own)
    seen, unseen = [], []
    for place in range(length):
        result = p0.expand(rows, *p0.shape)
        for other in range(length):
            if other != place:
                result = result * factor[:, other].view(rows, *(size if axis == other else 1 for axis in range(length)))
        rest = result.sum([axis + 1 for axis in range(length) if axis != place])
        both = rest * factor[:, place]
        unseen.append(rest / rest.sum(-1, keepdim=True))
        seen.append(both / both.sum(-1, keepdim=True))
    return torch.stack(seen, 1), torch.stack(unseen, 1)


class ExactNetwork:
    """The leave-one-out posterior as a network that reads the evidence; `off` is added to its logits, [length, K]."""

    reads_evidence = True

    def __init__(self, p0: Tensor, off: Tensor | float = 0.0) -> None:
        self.p0, self.off, self.length, self.num_outputs = p0, off, p0.ndim, p0.shape[0]

    def __call__(self, tokens: Tensor, time: Tensor, evidence: Tensor) -> Tensor:
        return from_evidence(self.p0, tokens, evidence)[1].log() + self.off


class ExactChain(nn.Module):
    """p(x^l | x^{l-1}) of a Markov chain, whatever stands at l and after it."""

    causal = True

    def __init__(self, initial: Tensor, transition: Tensor) -> None:
        super().__init__()
        self.initial, self.transition = initial, transition

    def forward(self, tokens: Tensor, time: Tensor) -> Tensor:
        first = self.initial.log().expand(len(tokens), 1, -1)
        return torch.cat([first, self.transition.log()[tokens[:, :-1]]], 1)
