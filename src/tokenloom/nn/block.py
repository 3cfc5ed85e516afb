"""A transformer block modulated by the time: normalise, scale and shift, attend or transform, gate, add.

Attention runs on PyTorch's own kernel, with rotary positions and an optional bias learnt for each relation.
"""

from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tokenloom.nn.base import Hidden, Relations
from tokenloom.nn.linear import Recomputed, is_plain

Condition = Float[Tensor, "batch condition"] | None
Sees = Bool[Tensor, "length keys"] | Literal["before"] | None  # keys a position sees: flags, up to its own, all
Memory = Float[Tensor, "batch keys width"] | None  # what a position attends to in the place of its own sequence
GELU = partial(F.gelu, approximate="tanh")


class Modulation(nn.Module):
    """Maps the condition to `parts` vectors per row, zero at first; without a condition they are learnt constants."""

    def __init__(self, condition: int | None, width: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.linear = None if condition is None else nn.Linear(condition, parts * width)
        if self.linear is None:
            self.constant = nn.Parameter(torch.zeros(parts * width))
        else:
            nn.init.zeros_(self.linear.weight)
            nn.init.zeros_(self.linear.bias)

    def forward(self, condition: Condition) -> tuple[Tensor, ...]:
        vectors: Tensor = self.constant[None] if self.linear is None else self.linear(condition)
        return vectors[:, None].chunk(self.parts, -1)


class Attention(nn.Module):
    """Attention of a sequence to itself, or to a memory made of copies of it laid end to end."""

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
        elif not is_plain(self.qkv, nn.Linear):  # replaced or hooked into, as by an adapter
            parts = (read.through(self.qkv).chunk(3, -1)[0], *self.qkv(memory).chunk(3, -1)[1:])
        else:
            query, key, value = self.qkv.weight.chunk(3)
            parts = (read.times(query), F.linear(memory, key), F.linear(memory, value))
        head_width = parts[0].shape[-1] // self.heads
        return tuple(part.view(*part.shape[:2], self.heads, head_width).transpose(1, 2) for part in parts)

    def _scores(self, sees: Sees, query: Tensor) -> Tensor | None:
        """Build what is added to the scores, sum_r bias[head, r] relations[r], or masks them; None without either."""
        if self.bias is None or self.relations is None:
            return None if isinstance(sees, str) else sees
        assert sees is None, "related positions see each other"
        dtype, length = query.dtype, query.shape[2]
        return torch.einsum("hr,rij->hij", self.bias.to(dtype), self.relations[:, :length, :length].to(dtype))


class Block(nn.Module):
    """Attention and an MLP of hidden size 4 width, each behind a gate that starts closed."""

    def __init__(
        self, width: int, heads: int, condition: int | None, dropout: float, rotary: bool, relations: Relations | None
    ) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width, bias=False)
        self.attention = Attention(width, heads, rotary, relations)
        self.norm_mlp = nn.LayerNorm(width, bias=False)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.modulation = Modulation(condition, width, 6)
        self.dropout, self.recompute = dropout, False

    def forward(self, x: Hidden, condition: Condition, sees: Sees = None, memory: Memory = None) -> Hidden:
        if self.recompute and torch.is_grad_enabled():  # only x is kept, and a backward pass computes all of it again
            result: Tensor = checkpoint(self._transform, x, condition, sees, memory, use_reentrant=False)
            return result
        return self._transform(x, condition, sees, memory)

    def _transform(self, x: Hidden, condition: Condition, sees: Sees, memory: Memory) -> Hidden:
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.modulation(condition)
        attended = self.attention(_normalised(x, self.norm_attention, shift_a, scale_a), sees, memory)
        x = x + gate_a * F.dropout(attended, self.dropout, self.training)
        hidden = _normalised(x, self.norm_mlp, shift_m, scale_m).through(self.expand)
        transformed = Recomputed(GELU, (hidden,)).through(self.contract)
        result: Tensor = x + gate_m * F.dropout(transformed, self.dropout, self.training)
        return result


def _normalised(x: Tensor, norm: nn.LayerNorm, shift: Tensor, scale: Tensor) -> Recomputed:
    """Normalise and modulate x; a norm that was replaced or hooked into is called."""
    if not is_plain(norm, nn.LayerNorm) or norm.bias is not None:
        return Recomputed(modulate, (norm(x), shift, scale))
    return Recomputed(
        lambda x, weight, *by: modulate(F.layer_norm(x, norm.normalized_shape, weight, None, norm.eps), *by),
        (x, norm.weight, shift, scale),
    )


def modulate(x: Hidden, shift: Tensor, scale: Tensor) -> Hidden:
    """x (1 + scale) + shift."""
    return torch.addcmul(x + shift, x, scale)


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
