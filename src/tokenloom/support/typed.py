"""Wrong types get a sentence, as wrong values do: arguments are compared with the annotations they are passed to.

An annotation is the one place that says what is expected, so nothing is written twice: `checked` guards a function,
`check_fields` the fields of a dataclass.  Shapes and dtypes of tensors are left to `checks.py`, which names the limits.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import FunctionType, NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from torch import Tensor
from torch import bool as bool_

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

WORDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "True or False",
    NoneType: "None",
    Tensor: "a tensor",
}


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The function, with a `ValueError` that says which argument has a wrong type; for what users call."""
    signature = inspect.signature(function)
    fitting: set[tuple[str, type, Any]] = set()  # what has been checked before: a name, a type and a dtype

    @functools.wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            bound = signature.bind(*args, **options).arguments
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        for name, value in bound.items():
            key = (name, type(value), getattr(value, "dtype", None))
            if key not in fitting:
                check_type(name, value, _hints(function).get(name, Any))
                if type(value).__module__ != "builtins":  # whose content counts: a number, a text, a list
                    fitting.add(key)
        return function(*args, **options)

    return call


def check_fields(part: Any) -> None:
    """Raise unless every field of a dataclass has the type it is declared with."""
    hints = _hints(part.__class__)
    for item in fields(part):
        check_type(item.name, getattr(part, item.name), hints[item.name])


def check_type(name: str, value: Any, hint: Any) -> None:
    """Raise unless a value is what an annotation says."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError(f"{name} must fit into 64 bits, got a number of {len(str(abs(value)))} digits")
    if not fits(value, hint):
        raise ValueError(f"{name} must be {in_words(hint)}, got {got(value, hint)}")


@functools.cache
def _hints(annotated: Any) -> dict[str, Any]:
    return get_type_hints(annotated)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; what no rule here understands fits."""
    origin, inside = get_origin(hint), get_args(hint)
    if isinstance(hint, TypeVar):
        return hint.__bound__ is None or fits(value, hint.__bound__)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in inside)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in inside)
    if origin is type:
        return True  # a representation, which is checked by name where it is used
    if origin is tuple:
        kinds = [inside[0]] * len(value) if isinstance(value, tuple | list) and inside[-1] is Ellipsis else inside
        return isinstance(value, tuple | list) and len(value) == len(kinds) and all(map(fits, value, kinds))
    if origin is Sequence:
        return (
            isinstance(value, Sequence) and not isinstance(value, str) and all(fits(each, inside[0]) for each in value)
        )
    return _is_a(value, origin or (NoneType if hint is None else hint))


def _is_a(value: Any, kind: Any) -> bool:
    if kind is Callable:
        return callable(value)
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if hasattr(kind, "array_type"):  # a tensor with a shape
        odd = isinstance(value, Tensor) and (value.is_complex() or value.dtype == bool_)
        return isinstance(value, Tensor) and not (odd and kind.__name__.startswith("Float"))
    if not isinstance(kind, type) or kind in (Any, object):
        return True
    return not isinstance(value, type) and isinstance(value, kind)  # a class has the attributes of its objects


def in_words(hint: Any) -> str:
    """What messages call a type."""
    origin, inside = get_origin(hint), get_args(hint)
    if isinstance(hint, TypeVar):
        return in_words(hint.__bound__)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(in_words, inside)))
    if origin is Literal:
        return " or ".join(map(repr, inside))
    if origin is tuple and inside[-1] is not Ellipsis:
        return f"a pair ({', '.join(map(in_words, inside))})"
    if origin in (tuple, Sequence):
        return f"a sequence, each of it {in_words(inside[0])}"
    if hasattr(hint, "array_type"):
        kind = {"Int": "an int64", "Float": "a float", "Bool": "a bool"}.get(hint.__name__.split("[")[0], "a")
        return f"{kind} tensor of shape [{', '.join(hint.dim_str.split())}]"
    kind = origin or hint
    plain = getattr(kind, "__name__", str(kind))
    return WORDS.get(kind, f"{'an' if plain[:1] in 'AEIOUaeiou' else 'a'} {plain}")


def got(value: Any, hint: Any) -> str:
    """What messages call a wrong value, with the remedy where there is one."""
    tensor = "tensor" in in_words(hint)
    if type(value).__module__ == "numpy" and hasattr(value, "__array__"):
        return "a numpy array; pass torch.from_numpy(x)" if tensor else f"{value!r} of numpy; convert it first"[:80]
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)} and {value.dtype}"
    if isinstance(value, type | FunctionType) and "function" not in in_words(hint):
        kind = "class" if isinstance(value, type) else "function"
        return f"the {kind} {value.__name__} itself; build one, as in {value.__name__}(...)"
    if isinstance(value, list | tuple) and tensor and "pair" not in in_words(hint):
        return f"a {type(value).__name__}; pass torch.tensor(x)"
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return (
        f"{'an' if type(value).__name__[:1] in 'aeiouAEIOU' else 'a'} {type(value).__name__}, {shown}"
        if isinstance(value, Mapping)
        else shown
    )
