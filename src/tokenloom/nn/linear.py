r"""Linear layers computed without calling them, in less time for few rows and in less memory for a backward pass.

A sampler asks for the logits of a few positions: a product that reads the whole matrix and does little with it.  There
the CPU libraries of PyTorch take up to five times as long for x W^T as for W x^T, and longer for one row than for two.

In training, for y = W f(inputs) + b with f cheap beside the product (a norm with its modulation, an activation),
autograd would keep f(inputs), which the gradient of W needs, and whatever f needs on the way.  Here only the inputs of
f stay, and the backward pass computes f once more.  The gradients are those of the parts.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

FEW, LARGE = 16, 4096  # most rows and least outputs for which W x^T pays: with more rows the two take equally long


def is_plain(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """True if a layer is exactly of this class, without hooks."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return type(layer) is kind and not any(hooks) and "forward" not in vars(layer)


def linear(layer: nn.Module, rows: Tensor) -> Tensor:
    """Apply a layer to some rows; few rows of a large plain linear layer on the CPU take the fast way."""
    few = 0 < len(rows) <= FEW and rows.device.type == "cpu"
    recorded = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu")
    if few and not recorded and isinstance(layer, nn.Linear) and is_plain(layer, nn.Linear):
        weight, bias = layer.weight, layer.bias
        if layer.out_features >= LARGE and rows.dtype == weight.dtype:
            several = rows if len(rows) > 1 else rows.expand(2, -1)
            product = weight @ several.T if bias is None else torch.addmm(bias[:, None], weight, several.T)
            return product.T[: len(rows)].contiguous()
    result: Tensor = layer(rows)
    return result


@dataclass(frozen=True)
class Recomputed:
    """The input f(inputs) of linear maps, which keep only `inputs` for the backward pass."""

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]

    def through(self, linear: nn.Linear) -> Tensor:
        """Apply a layer; one that was replaced or hooked into is called."""
        if not is_plain(linear, nn.Linear):
            result: Tensor = linear(self.function(*self.inputs))
            return result
        return self.times(linear.weight, linear.bias)

    def times(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Compute W f(inputs) + b; under torch.compile, the compiler decides what to keep."""
        if not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return F.linear(self.function(*self.inputs), weight, bias)
        result: Tensor = _RecomputedLinear.apply(weight, bias, self.function, *self.inputs)  # type: ignore[no-untyped-call]
        return result


class _RecomputedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, bias: Tensor | None, f: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
        ctx.f, ctx.bias_dtype = f, None if bias is None else bias.dtype
        ctx.autocast, device = nullcontext, weight.device.type
        if torch.amp.is_autocast_available(device):  # the backward pass computes in the precision of this one
            current = torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
            ctx.autocast = partial(torch.autocast, device, *current)
        ctx.save_for_backward(weight, *inputs)
        return F.linear(f(*inputs), weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        weight, *inputs = ctx.saved_tensors
        leaves = [part.detach().requires_grad_(part.requires_grad) for part in inputs]
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        with torch.enable_grad(), ctx.autocast():
            computed = ctx.f(*leaves)
        flat, read = slope.flatten(0, -2), computed.detach().flatten(0, -2).to(slope.dtype)
        back = (slope @ weight.to(slope.dtype)).to(computed.dtype)
        found = iter(torch.autograd.grad(computed, wanted, back) if wanted else ())
        to_weight = (flat.T @ read).to(weight.dtype) if ctx.needs_input_grad[0] else None
        to_bias = None if ctx.bias_dtype is None else flat.sum(0).to(ctx.bias_dtype)
        return to_weight, to_bias, None, *(next(found) if leaf.requires_grad else None for leaf in leaves)
