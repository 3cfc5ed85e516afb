"""A large matrix times few rows, and the test whether a layer may be computed without calling it.

A sampler asks for the logits of a few positions: a product that reads the whole matrix and does little with it.  There
the CPU libraries of PyTorch take up to five times as long for x W^T as for W x^T, and longer for one row than for two.
"""

import torch
from torch import Tensor, nn

FEW, LARGE = 16, 4096
"""Most rows and least outputs for which W x^T pays: with more rows the two take equally long."""


def is_plain(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """True if a layer is exactly of this class, without hooks."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return type(layer) is kind and not any(hooks) and "forward" not in vars(layer)


def linear(layer: nn.Module, rows: Tensor) -> Tensor:
    """Apply a layer to some rows; few rows of a large plain linear layer on the CPU take the fast way."""
    if (
        not isinstance(layer, nn.Linear)
        or not is_plain(layer, nn.Linear)
        or layer.out_features < LARGE
        or not 0 < len(rows) <= FEW
        or rows.device.type != "cpu"
        or rows.dtype != layer.weight.dtype
        or torch.is_grad_enabled()
        or torch.is_autocast_enabled("cpu")
    ):
        result: Tensor = layer(rows)
        return result
    several = rows if len(rows) > 1 else rows.expand(2, -1)
    product = (
        layer.weight @ several.T if layer.bias is None else torch.addmm(layer.bias[:, None], layer.weight, several.T)
    )
    return product.T[: len(rows)].contiguous()
