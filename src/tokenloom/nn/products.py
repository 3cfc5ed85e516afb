"""A large matrix times few rows; and whether a layer may be computed otherwise than by calling it.

A sampler asks for the logits of a few positions: a product that reads the whole matrix and does little with it.  There
the CPU libraries of PyTorch take up to five times as long for x W^T as for W x^T, and longer for one row than for two.
"""

import torch
from torch import Tensor, nn

FEW = 16
"""Above, the two are alike, and the result of the second would have to be turned."""
LARGE = 4096


def is_plain(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a layer does what its class does and nothing else: it is no subclass, and nobody has hooked into it."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return type(layer) is kind and not any(hooks) and "forward" not in vars(layer)


def linear(layer: nn.Module, rows: Tensor) -> Tensor:
    """A layer's output for some rows; of a large plain linear layer on the CPU, few of them go the fast way."""
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
