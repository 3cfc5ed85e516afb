"""A transformer block modulated by the time: normalise, scale and shift, attend or transform, gate, add."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenloom.nn.attention import Attention, Hidden, Mask

Condition = Float[Tensor, "batch condition"] | None


class Modulation(nn.Module):
    """`parts` vectors of size width a row, from the condition; zero at first.  Constants where nothing conditions."""

    def __init__(self, condition: int | None, width: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.linear = None if condition is None else nn.Linear(condition, parts * width)
        self.constant = nn.Parameter(torch.zeros(parts * width)) if condition is None else None
        if self.linear is not None:
            nn.init.zeros_(self.linear.weight)
            nn.init.zeros_(self.linear.bias)

    def forward(self, condition: Condition) -> tuple[Tensor, ...]:
        if self.linear is None:
            assert self.constant is not None
            return self.constant[None, None].chunk(self.parts, -1)
        assert condition is not None
        chunks: tuple[Tensor, ...] = self.linear(condition)[:, None].chunk(self.parts, -1)
        return chunks


class Block(nn.Module):
    """Attention and an MLP of hidden size 4 width, each behind a gate that starts closed."""

    def __init__(
        self,
        width: int,
        heads: int,
        condition: int | None,
        dropout: float,
        rotary: bool,
        relations: Bool[Tensor, "kinds length length"] | None,
    ) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(width, bias=False)
        self.attention = Attention(width, heads, rotary, relations)
        self.norm_mlp = nn.LayerNorm(width, bias=False)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)
        self.modulation = Modulation(condition, width, 6)
        self.dropout = dropout

    def forward(
        self,
        x: Hidden,
        condition: Condition,
        mask: Mask | None = None,
        memory: Float[Tensor, "batch keys width"] | None = None,
    ) -> Hidden:
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = self.modulation(condition)
        attended = self.attention(modulate(self.norm_attention(x), shift_a, scale_a), mask, memory)
        x = x + gate_a * F.dropout(attended, self.dropout, self.training)
        transformed = gelu_linear(self.expand(modulate(self.norm_mlp(x), shift_m, scale_m)), self.contract)
        result: Tensor = x + gate_m * F.dropout(transformed, self.dropout, self.training)
        return result


def gelu_linear(hidden: Float[Tensor, "batch length hidden"], linear: nn.Linear) -> Hidden:
    """linear(gelu(hidden)), which keeps only `hidden` for the backward pass and computes the gelu again there."""
    activated = F.gelu(hidden, approximate="tanh")
    address, kept = activated.data_ptr(), hidden.detach()  # the hooks outlive this call and must not hold `activated`

    def pack(saved: Tensor) -> Tensor | torch.Size:
        return saved.shape if saved.data_ptr() == address else saved

    def unpack(packed: Tensor | torch.Size) -> Tensor:
        return packed if isinstance(packed, Tensor) else F.gelu(kept, approximate="tanh").view(packed)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result: Tensor = linear(activated)
    return result


def modulate(x: Hidden, shift: Tensor, scale: Tensor) -> Hidden:
    """x (1 + scale) + shift."""
    return torch.addcmul(x + shift, x, scale)
