"""The number of parameters of a network, without building it in full.

It is built on the meta device, where tensors have shapes and no memory, with few blocks: parameters grow linearly with
the depth (over even depths, as some networks have a block for every second one).
"""

import math
from dataclasses import replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tokenloom.nn.base import NetworkOptions, Task

FEW = (2, 4)


def count_parameters(options: NetworkOptions, task: Task) -> float:
    """Count the parameters of the network that these options build; inf where their number is beyond counting."""
    depth = getattr(options, "depth", 1)
    if depth <= max(FEW):
        return _count(options, task)
    few, more = (_count(replace(options, depth=number), task) for number in FEW)  # type: ignore[call-arg]
    return math.inf if math.isinf(more) else few + (more - few) / (FEW[1] - FEW[0]) * (depth - FEW[0])


def _count(options: NetworkOptions, task: Task) -> float:
    try:
        with torch.device("meta"), _Uninitialised():
            network = options.build(task)
    except (RuntimeError, TypeError) as error:
        if "overflow" not in str(error).lower():
            raise
        return math.inf  # more than an index of PyTorch can hold
    return float(sum(parameter.numel() for parameter in network.parameters()))


class _Uninitialised(TorchFunctionMode):
    """Leaves random initialisation out, which on the meta device does nothing but load PyTorch's compiler first."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "kaiming_uniform_", "trunc_normal_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


def heads_for(width: int) -> int:
    """Return how many heads, at most 64 and each about 32 wide, divide the width of a network evenly."""
    wanted = min(64, max(1, width // 32))
    return next((heads for heads in range(wanted, 1, -1) if width % (2 * heads) == 0), 1)
