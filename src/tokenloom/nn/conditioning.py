"""The conditions of a transformer besides the tokens: time, the absorbing sequence, given positions."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from tokenloom.types import Flags, PerRow, Tokens

FREQUENCIES = 128


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
    """Tokens, with the optional conditions of a state.

    The absorbing sequence U shares the table of x_t: [e(x_t), e(U), x_t = U] goes through an MLP, hidden size 4 width.
    """

    def __init__(self, num_states: int, width: int, absorbing: bool, given: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(num_states, width)
        nn.init.normal_(self.table.weight, std=0.02)
        self.mix = None
        if absorbing:
            self.mix = nn.Sequential(nn.Linear(2 * width + 1, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.given = nn.Parameter(torch.zeros(width)) if given else None

    def forward(
        self, tokens: Tokens, absorbing: Tokens | None, given: Flags | None
    ) -> Float[Tensor, "batch length width"]:
        x: Tensor = self.table(tokens)
        if self.mix is not None and absorbing is not None:
            match = (tokens == absorbing).to(x.dtype).unsqueeze(-1)
            x = self.mix(torch.cat([x, self.table(absorbing), match], -1))
        if self.given is not None and given is not None:
            x = x + given.unsqueeze(-1) * self.given
        return x
