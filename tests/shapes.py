"""Shapes and dtypes are checked in every test, where an annotation declares one.

The import hook of jaxtyping decorates every function, binds its arguments and checks them twice, once more with the
result: a third of all the time that tests took.  Here a function is decorated if it takes or returns tensors of a
declared shape, and what it takes is checked once; types without a shape are what mypy checks.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, get_args

import jaxtyping
from beartype import beartype
from jaxtyping import config, install_import_hook, jaxtyped


@contextmanager
def shapes_checked(package: str) -> Iterator[None]:
    """Check the functions of the modules that are imported inside the block."""
    # it stays, as functions that are defined inside functions are decorated when these run
    vars(jaxtyping)["jaxtyped"] = _shaped
    with install_import_hook(package, None):
        yield


def _shaped(typechecker: None) -> Callable[[Any], Any]:
    """Take the place of the decorator that the hook inserts."""
    return _decorated


def _decorated(part: Any) -> Any:
    if inspect.isclass(part):  # the fields of a dataclass are the arguments of its __init__
        if "__init__" in vars(part) and hasattr(part, "__dataclass_fields__"):
            setattr(part, "__init__", _decorated(part.__init__))  # noqa: B010
        return part
    shaped = {name: hint for name, hint in getattr(part, "__annotations__", {}).items() if _has_shape(hint)}
    if not shaped:
        return part
    copy = FunctionType(part.__code__, part.__globals__, part.__name__, part.__defaults__, part.__closure__)
    copy.__kwdefaults__, copy.__annotations__, copy.__qualname__ = part.__kwdefaults__, shaped, part.__qualname__
    checked = beartype(copy)

    @functools.wraps(part)
    def call(*args: Any, **options: Any) -> Any:
        if config.jaxtyping_disable:
            return part(*args, **options)
        with jaxtyped("context"):  # in which one name is one size
            return checked(*args, **options)

    return call


def _has_shape(hint: Any) -> bool:
    """True if tensors of a declared shape are part of an annotation."""
    return hasattr(hint, "array_type") or any(map(_has_shape, get_args(hint)))
