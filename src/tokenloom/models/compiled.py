"""A network under torch.compile, body and head apart.

A sampler evaluates the rows that a step changes and the positions that it draws, a different number at every step.
PyTorch compiles code for exactly the first number of rows, which is all that training and evaluation need; for the
second number it compiles code in which the number of rows is a variable, and for a single row separate code.

Modules are arguments of what is compiled and not part of it: copies of a network share the compiled code, and saving,
copying and training see the network that was there before.
"""

from collections.abc import Callable
from functools import cache
from threading import local
from typing import Any

import torch
from torch import Tensor

BACKEND = "inductor"  # the code generator of torch.compile
MOST_CODE = 256  # versions of the compiled code that PyTorch keeps before it falls back to the interpreter

_THREAD = local()


def call(module: Any, method: str | None, *arguments: Tensor, **options: Tensor) -> Any:
    """Call a method of a module, or the module itself, compiled; the first dimension of every tensor is its rows."""
    if not len(arguments[0]):
        return run(module, method, *arguments, **options)
    if not hasattr(_THREAD, "limits_raised"):
        # One function is compiled for all networks, so PyTorch's 8 versions are soon used up.  Its settings are those
        # of a thread, and raised once in each: a user who changes them later keeps what they set.
        import torch._dynamo.config as settings

        for name in ("cache_size_limit", "accumulated_cache_size_limit"):  # their names since 2.6
            setattr(settings, name, max(getattr(settings, name), MOST_CODE))
        _THREAD.limits_raised = True
    return _compiled(BACKEND)(module, method, *arguments, **options)


@cache
def _compiled(backend: str) -> Callable[..., Any]:
    return torch.compile(run, backend=backend)


def run(module: Any, method: str | None, *arguments: Tensor, **options: Tensor) -> Any:
    """Call a method of a module, or the module itself."""
    return (module if method is None else getattr(module, method))(*arguments, **options)
