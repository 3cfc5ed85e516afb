"""Multi-head attention on PyTorch's own kernel, with rotary positions and an optional bias learnt for each relation."""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenloom.nn.base import Relations
from tokenloom.nn.linear import Recomputed

Hidden = Float[Tensor, "batch length width"]
Sees = Bool[Tensor, "length keys"] | Literal["before"] | None
"""The keys that a position sees: flags, those up to its own, or all."""
Memory = Float[Tensor, "batch keys width"] | None
"""What a position attends to in the place of its own sequence."""


class Attention(nn.Module):
    """Attention of a sequence to itself, or to a memory made of copies of it laid end to end.

    `relations` adds sum_r bias[head, r] relations[r] to the scores.
    """

    def __init__(self, width: int, heads: int, rotary: bool, relations: Relations | None) -> None:
        super().__init__()
        if width % heads or width // heads % 2:
            raise ValueError(f"width must be an even multiple of heads, got width {width} and heads {heads}")
        self.heads, self.rotary = heads, rotary
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.bias = None if relations is None else nn.Parameter(torch.zeros(heads, len(relations)))
        self.relations: Tensor | None
        self.register_buffer("relations", relations, persistent=False)

    def forward(self, read: Recomputed, sees: Sees, memory: Memory) -> Hidden:
        q, k, v = self._project(read, memory)
        if self.rotary:
            angles = rotary_angles(torch.arange(q.shape[2], device=q.device), q.shape[-1])
            q, k = rotate(q, angles), rotate(k, angles.repeat(k.shape[2] // q.shape[2], 1))
            v = v.contiguous()  # a view would keep the unrotated q and k for the backward pass
        scores = self._scores(sees, q)
        causal = scores is None and sees is not None
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=scores, is_causal=causal)
        merged: Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return merged

    def _project(self, read: Recomputed, memory: Memory) -> tuple[Tensor, ...]:
        if memory is None:
            parts = read.through(self.qkv).chunk(3, -1)
        else:
            query, key, value = self.qkv.weight.chunk(3)
            parts = (read.times(query), F.linear(memory, key), F.linear(memory, value))
        head_width = parts[0].shape[-1] // self.heads
        return tuple(part.view(*part.shape[:2], self.heads, head_width).transpose(1, 2) for part in parts)

    def _scores(self, sees: Sees, query: Tensor) -> Tensor | None:
        """Build the table that is added to the scores, or that masks them; None where the kernel needs none."""
        if self.bias is None or self.relations is None:
            return None if isinstance(sees, str) else sees
        dtype, length = query.dtype, query.shape[2]
        scores = torch.einsum("hr,rij->hij", self.bias.to(dtype), self.relations[:, :length, :length].to(dtype))
        if isinstance(sees, str):
            sees = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
        return scores if sees is None else scores.masked_fill(~sees, -torch.inf)


def rotary_angles(positions: Tensor, head_width: int) -> Float[Tensor, "length half"]:
    """Multiply each position by a geometric range of frequencies."""
    half = head_width // 2
    frequencies = 10_000.0 ** (-torch.arange(half, device=positions.device, dtype=torch.float32) / half)
    return positions.float()[:, None] * frequencies


def rotate(x: Float[Tensor, "batch heads length head_width"], angles: Float[Tensor, "length half"]) -> Tensor:
    """Turn the pairs (x_i, x_{i + half}) by their angles."""
    cos, sin = (function.to(x.dtype).repeat(1, 2) for function in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin
