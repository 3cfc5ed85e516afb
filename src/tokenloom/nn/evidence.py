r"""The evidence as a network reads it: one number a in [0, inf] per position, and nothing of time, noise law or givens.

    phi_c(a) = (1 - e^{-a}) sigmoid(a - c),      c = 0, 1.5, ..., 21,

features that are all 0 where a token says nothing (a = 0) and all 1 where it says everything (a = inf).  A token is
trusted about as far as a > log K, so these centres suit vocabularies from 2 to 262,144.  What a token adds to its
position is multiplied with a gate that is linear in phi, so at a = 0 nothing of the network depends on the token.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tokenloom.types import PerPosition, Tokens

FEATURES, SPACING = 15, 1.5
"""The number of centres c and the distance between them."""


def evidence_features(evidence: PerPosition) -> Float[Tensor, "batch length features"]:
    """Return phi, in float32."""
    a = evidence.float().unsqueeze(-1)
    return -torch.expm1(-a) * torch.sigmoid(a - SPACING * torch.arange(FEATURES, device=a.device))


class EvidenceEmbedding(nn.Module):
    """Each token behind its gate, beside what the evidence alone adds: gate(phi) * e(x_t) + V phi + b."""

    def __init__(self, num_tokens: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(num_tokens, width)
        self.gate = nn.Linear(FEATURES, width, bias=False)
        self.level = nn.Linear(FEATURES, width)
        nn.init.normal_(self.table.weight, std=0.02)
        nn.init.constant_(self.gate.weight, 1 / FEATURES)
        nn.init.normal_(self.level.weight, std=0.02)
        nn.init.normal_(self.level.bias, std=0.02)

    def forward(self, tokens: Tokens, evidence: PerPosition) -> Float[Tensor, "batch length width"]:
        phi = evidence_features(evidence).to(self.table.weight.dtype)
        said = self.table(tokens.masked_fill(evidence == 0, 0))  # a mask has no row of its own
        result: Tensor = torch.addcmul(self.level(phi), self.gate(phi), said)
        return result


class LevelEmbedding(nn.Module):
    """The level of a row as `dim` features, in the place of its time: an MLP of phi, averaged over the positions."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(FEATURES, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, evidence: PerPosition) -> Float[Tensor, "batch dim"]:
        phi = evidence_features(evidence).mean(1)
        return F.silu(self.mlp(phi.to(next(self.parameters()).dtype)))
