r"""A network under torch.compile, body and head apart, compiled once per layout.

    n rows  ->  padded to a size that is compiled already, at most 3/2 n, else n itself  ->  compiled  ->  n rows

A sampler asks for the rows that a step changes and for the positions that it draws, other numbers at every step, while
a compiled function is made for one shape.  Every row (of a body) and every position (of a head) is treated alone, so
the padding, copies of the last one, changes nothing.  A batch of B rows takes at most about 1 + log B / log(3/2) sizes.

Modules are arguments of what is compiled and not part of it: copies of a network share the compiled code, and saving,
copying and training see the network that was there before.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

BACKEND = "inductor"
"""What torch.compile generates code with."""
LARGEST = 1.5
"""How much larger than asked a size may be."""
MOST_CODE = 256
"""How many versions of the compiled code PyTorch keeps before it falls back to the interpreter."""

_LOCK = Lock()
_SIZES: WeakKeyDictionary[Any, dict[object, set[int]]] = WeakKeyDictionary()


def call(module: Any, method: str | None, arguments: Sequence[Tensor], options: Mapping[str, Tensor]) -> Tensor:
    """A method of a module, or the module itself, compiled; every tensor has one entry per row, as has the result."""
    rows = len(arguments[0])
    if rows == 0:
        return _run(module, method, *arguments, **options)
    tensors = [*arguments, *options.values()]
    layout = (method, torch.is_grad_enabled(), *((part.shape[1:], part.dtype, part.device) for part in tensors))
    size = _size(module, layout, rows)
    padded = [_padded(part, size) for part in tensors]
    positional, named = padded[: len(arguments)], dict(zip(options, padded[len(arguments) :], strict=True))
    return _compiled(BACKEND)(module, method, *positional, **named)[:rows]


def sizes(module: Any) -> int:
    """How many layouts of a module were compiled."""
    return sum(len(found) for found in _SIZES.get(module, {}).values())


def _size(module: Any, layout: object, rows: int) -> int:
    """The smallest size of this layout that rows fit into; a new one where the waste would be large."""
    with _LOCK:
        known = _SIZES.setdefault(module, {}).setdefault(layout, set())
        fitting = [size for size in known if rows <= size <= LARGEST * rows]
        size = min(fitting, default=rows)
        known.add(size)
    return size


def _padded(part: Tensor, size: int) -> Tensor:
    missing = size - len(part)
    return part if not missing else torch.cat([part, part[-1:].expand(missing, *part.shape[1:])])


@cache
def _compiled(backend: str) -> Callable[..., Tensor]:
    import torch._dynamo.config as settings

    settings.recompile_limit = max(settings.recompile_limit, MOST_CODE)
    settings.accumulated_recompile_limit = max(settings.accumulated_recompile_limit, MOST_CODE)
    compiled: Callable[..., Tensor] = torch.compile(_run, dynamic=False, backend=backend)
    return compiled


def _run(module: Any, method: str | None, *arguments: Tensor, **options: Tensor) -> Tensor:
    function = module if method is None else getattr(module, method)
    result: Tensor = function(*arguments, **options)
    return result
