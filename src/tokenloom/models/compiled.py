r"""A network under torch.compile, body and head apart, compiled once per layout.

    n rows  ->  padded to a size that is compiled already, at most 3/2 n, else to the next of 1, 2, 3, 4, 6, 9, 13, ...
            ->  compiled  ->  n rows

A sampler asks for the rows that a step changes and for the positions that it draws, other numbers at every step, while
a compiled function is made for one shape.  Every row (of a body) and every position (of a head) is treated alone, so
the padding, copies of the last one, changes nothing.  The first size of a layout, usually that of the whole batch, is
compiled without padding; others follow the sequence, so that B rows take about log B / log(3/2) sizes at the most.

Modules are arguments of what is compiled and not part of it: copies of a network share the compiled code, and saving,
copying and training see the network that was there before.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import Lock
from typing import Any

import torch
from torch import Tensor

BACKEND = "inductor"
"""What torch.compile generates code with."""
LARGEST = 1.5
"""How much larger than asked a size may be."""
MOST_CODE = 256
"""How many versions of the compiled code PyTorch keeps before it falls back to the interpreter."""

_LOCK = Lock()
_SIZES: dict[object, set[int]] = {}


def call(module: Any, method: str | None, arguments: Sequence[Tensor], options: Mapping[str, Tensor]) -> Any:
    """A method of a module, or the module itself, compiled; every tensor has one entry per row, as has the result."""
    rows, tensors = len(arguments[0]), [*arguments, *options.values()]
    if rows == 0:
        return _run(module, method, *arguments, **options)
    shapes = ((part.shape[1:], part.dtype, part.device) for part in tensors)
    size = fitting_size((type(module), method, torch.is_grad_enabled(), *shapes), rows)
    padded = [_padded(part, size) for part in tensors]
    positional, named = padded[: len(arguments)], dict(zip(options, padded[len(arguments) :], strict=True))
    _keep_code()
    result = _compiled(BACKEND)(module, method, *positional, **named)
    return result[:rows] if isinstance(result, Tensor) else result


def fitting_size(layout: object, rows: int) -> int:
    """The size to which rows of a layout are padded."""
    with _LOCK:
        known = _SIZES.setdefault(layout, set())
        fitting = [size for size in known if rows <= size <= LARGEST * rows]
        size = min(fitting, default=_next_size(rows) if known else rows)
        known.add(size)
    return size


def _next_size(rows: int) -> int:
    """The smallest of 1, 2, 3, 4, 6, 9, 13, ... that is not below this number."""
    size = 1
    while size < rows:
        size = max(size + 1, int(LARGEST * size))
    return size


def _padded(part: Tensor, size: int) -> Tensor:
    missing = size - len(part)
    return part if not missing else torch.cat([part, part[-1:].expand(missing, *part.shape[1:])])


@cache
def _compiled(backend: str) -> Callable[..., Any]:
    compiled: Callable[..., Any] = torch.compile(_run, dynamic=False, backend=backend)
    return compiled


def _keep_code() -> None:
    """PyTorch's limits, which are those of a thread, under the names that they have had since 2.6."""
    import torch._dynamo.config as settings

    for name in ("cache_size_limit", "accumulated_cache_size_limit"):
        if getattr(settings, name) < MOST_CODE:
            setattr(settings, name, MOST_CODE)


def _run(module: Any, method: str | None, *arguments: Tensor, **options: Tensor) -> Any:
    return (module if method is None else getattr(module, method))(*arguments, **options)
