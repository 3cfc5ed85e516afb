"""Check the tensors of a file against those of a network: names, shapes and kinds of numbers.

A file may claim a network of any size.  So construction has a budget of tensors and numbers, set by the weights in the
file, and a larger network is refused before its memory is allocated.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tokenloom.support.reading import open_regular

FACTORIES = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)  # of parameters
SPARE_TENSORS, SPARE_NUMBERS = 256, 1 << 24
"""Allowance of a constructor beyond four times what it keeps: parts that it replaces, masks, tables."""


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file."""
    open_regular(path).close()
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path.name} is not a safetensors file: {error}") from error


def halved(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return float32 weights as float16 if not one number of them changes, as in a model that was rounded; else all."""
    if all(value.dtype == torch.float32 and torch.equal(value.half().float(), value) for value in weights.values()):
        return {name: value.half() for name, value in weights.items()}
    return dict(weights)


def check_tensors(expected: Mapping[str, Tensor], found: Mapping[str, Tensor], what: str = "the weights") -> None:
    """Raise unless names, shapes and kinds of numbers agree; any floating-point type may replace another."""
    for name in (*expected, *found):
        if name not in found or name not in expected:
            raise ValueError(f"{what} {'lack' if name not in found else 'have an unknown'} {name}")
        asked, given = expected[name], found[name]
        if given.shape != asked.shape:
            raise ValueError(f"the weight {name} has shape {list(given.shape)}, the network's {list(asked.shape)}")
        if given.dtype != asked.dtype and not (given.is_floating_point() and asked.is_floating_point()):
            raise ValueError(f"the weight {name} holds {given.dtype}, but the network asks for {asked.dtype}")


class Budget(TorchFunctionMode):
    """Raise, inside this context, once more tensors or numbers are made than a network with these weights may need.

    The meta device would take no memory for a hostile width, but as many modules as a hostile depth asks for; and
    buffers that no file holds, such as the rotary tables of transformers, would be left without values.
    """

    def __init__(self, weights: Mapping[str, Tensor], what: str) -> None:
        super().__init__()
        self.what = what
        self.tensors = 4 * len(weights) + SPARE_TENSORS
        self.numbers = 4 * sum(tensor.numel() for tensor in weights.values()) + SPARE_NUMBERS

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        if function in FACTORIES:
            size = args[0] if args and not isinstance(args[0], int) else args or named.get("size", ())
            self.tensors -= 1
            self.numbers -= math.prod(side for side in size if isinstance(side, int))
            if min(self.tensors, self.numbers) < 0:
                raise ValueError(f"{self.what} is much larger than its weights in the file")
        return function(*args, **named)
