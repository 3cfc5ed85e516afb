"""A transformer block modulated by the time: normalise, scale and shift, attend or transform, gate, add."""

from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tokenloom.nn.attention import Attention, Hidden, Memory, Sees
from tokenloom.nn.base import Relations
from tokenloom.nn.linear import Recomputed, is_plain

Condition = Float[Tensor, "batch condition"] | None
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


class Block(nn.Module):
    """Attention and an MLP of hidden size 4 width, each behind a gate that starts closed.

    With `recompute` a backward pass computes the whole block again and keeps only its input.
    """

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
        if self.recompute and torch.is_grad_enabled():
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
