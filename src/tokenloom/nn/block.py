"""A transformer block modulated by the time: normalise, scale and shift, attend or transform, gate, add."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from tokenloom.nn.attention import Attention, Hidden, Mask

Condition = Float[Tensor, "batch condition"] | None


class Modulation(nn.Module):
    """`parts` vectors of size width per row, from the condition; zero at first.  Constants where nothing conditions."""

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


class _GeluLinear(torch.autograd.Function):
    """linear(gelu(hidden)), which keeps only `hidden` for the backward pass and computes the gelu again there."""

    @staticmethod
    def forward(ctx: FunctionCtx, hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight, bias)
        return F.linear(F.gelu(hidden, approximate="tanh"), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, slope: Tensor) -> tuple[Tensor, ...]:
        hidden, weight, bias = ctx.saved_tensors  # type: ignore[attr-defined]
        flat = slope.flatten(0, -2)
        activated = F.gelu(hidden, approximate="tanh").flatten(0, -2).to(slope.dtype)
        back = (slope @ weight.to(slope.dtype)).to(hidden.dtype)
        to_hidden = torch.ops.aten.gelu_backward(back, hidden, approximate="tanh")
        return to_hidden, (flat.T @ activated).to(weight.dtype), flat.sum(0).to(bias.dtype)


def gelu_linear(hidden: Float[Tensor, "batch length hidden"], linear: nn.Linear) -> Hidden:
    """The MLP's second half, with the smaller memory."""
    result: Tensor = _GeluLinear.apply(hidden, linear.weight, linear.bias)  # type: ignore[no-untyped-call]
    return result


def modulate(x: Hidden, shift: Tensor, scale: Tensor) -> Hidden:
    """x (1 + scale) + shift."""
    return torch.addcmul(x + shift, x, scale)
