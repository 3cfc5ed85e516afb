r"""The inputs of a transformer: tokens with the time, U and given positions, or with the evidence of each token.

The absorbing sequence U is fused with the tokens at the input, as v = [e(x_t), e'(U), 1{x_t = U}]:

    shared_mlp        e' = e, and W_2 gelu(W_0 v + b_0) + b_2 with 4 width hidden units: the text of the paper
    separate_linear   e' is a table of its own, and W v + b: the default of the paper's code
    gated             shared_mlp + 1{x_t != U} e(x_t): a clean token passes unchanged, as in a masked network

Tables begin at a spread of 1 / sqrt(3 width), that of a linear map's inputs: 0.02 at a width of 768.

The evidence is one number a in [0, inf] per position, and nothing of time, noise law or givens.  A network reads

    phi_c(a) = (1 - e^{-a}) sigmoid(a - c),      c = 0, 1.5, ..., 21,

features that are all 0 where a token says nothing (a = 0) and all 1 where it says everything (a = inf).  A token is
trusted about as far as a > log K, so these centres suit vocabularies from 2 to 262,144.  What a token adds to its
position is multiplied with a gate that is linear in phi, so at a = 0 nothing of the network depends on the token.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tokenloom.nn.base import Hidden
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

Fusion = Literal["shared_mlp", "separate_linear", "gated"]
FREQUENCIES = 128
FEATURES, SPACING = 15, 1.5  # the number of centres c and the distance between them


class TimeEmbedding(nn.Module):
    """Embeds the time of a row in `dim` features: sinusoids of `scale` times it, clamped to `limits`, then an MLP."""

    def __init__(self, dim: int, scale: float, limits: tuple[float | None, float | None]) -> None:
        super().__init__()
        self.scale, self.limits = scale, limits
        self.mlp = nn.Sequential(nn.Linear(2 * FREQUENCIES, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, time: PerRow) -> Float[Tensor, "batch dim"]:
        time = time if self.limits == (None, None) else time.clamp(*self.limits)
        exponent = torch.arange(FREQUENCIES, device=time.device, dtype=torch.float32) / FREQUENCIES
        angles = self.scale * time.float()[:, None] * torch.exp(-math.log(10_000) * exponent)
        features = torch.cat([angles.cos(), angles.sin()], -1)
        return F.silu(self.mlp(features.to(next(self.parameters()).dtype)))


class TokenEmbedding(nn.Module):
    """Tokens, given positions, and U by a `fusion` (None without it)."""

    def __init__(self, num_states: int, width: int, fusion: Fusion | None, given: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(num_states, width)
        nn.init.normal_(self.table.weight, std=(3 * width) ** -0.5)
        self.absorbing: nn.Embedding | None = None
        self.mix: nn.Module | None = None
        self.gated = fusion == "gated"
        if fusion in ("shared_mlp", "gated"):
            self.mix = nn.Sequential(nn.Linear(2 * width + 1, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        elif fusion == "separate_linear":
            self.absorbing, self.mix = nn.Embedding(num_states, width), nn.Linear(2 * width + 1, width)
            nn.init.normal_(self.absorbing.weight, std=(3 * width) ** -0.5)
        self.given = nn.Parameter(torch.zeros(width)) if given else None

    def forward(self, tokens: Tokens, absorbing: Tokens | None, given: Flags | None) -> Hidden:
        x: Tensor = self.table(tokens)
        if self.mix is not None and absorbing is not None:
            match = (tokens == absorbing).to(x.dtype).unsqueeze(-1)
            of_U = self.table if self.absorbing is None else self.absorbing
            mixed = self.mix(torch.cat([x, of_U(absorbing), match], -1))
            x = mixed + (1 - match) * x if self.gated else mixed
        if self.given is not None and given is not None:
            x = x + given.unsqueeze(-1) * self.given
        return x


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
        nn.init.constant_(self.gate.weight, 1 / FEATURES)
        nn.init.normal_(self.table.weight, std=(3 * width) ** -0.5)
        for weights in (self.level.weight, self.level.bias):  # of which up to all are added up
            nn.init.normal_(weights, std=(3 * width * FEATURES) ** -0.5)

    def forward(self, tokens: Tokens, evidence: PerPosition) -> Hidden:
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
        return F.silu(self.mlp(evidence_features(evidence).mean(1).to(next(self.parameters()).dtype)))
