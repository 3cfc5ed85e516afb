"""Wrong types get a sentence, as wrong values do: values are compared with the annotations they are passed to.

An annotation is the one place that says what is expected, so nothing is written twice: `checked` guards a function,
`check_fields` the fields of a dataclass, and `check_type` one value, as of a file.  A field may declare a `Limit`
beside its type.  Shapes and dtypes of tensors are left to `checks.py`.  Nothing here loads PyTorch.
"""

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "True or False", NoneType: "None"}
JSON_WORDS = WORDS | {bool: "true or false", NoneType: "null", dict: "an object"}
TENSORS = {"Int": "an int64 tensor", "Float": "a float tensor", "Bool": "a bool tensor"}
NOT_REAL = ("torch.bool", "torch.complex32", "torch.complex64", "torch.complex128")
REMEDIES = {"ndarray": "torch.from_numpy(x)", "list": "torch.tensor(x)", "tuple": "torch.tensor(x)"}
"""Calls that make a tensor of a value, by the name of its type."""

_hints = functools.cache(get_type_hints)


@dataclass(frozen=True)
class Limit:
    """The numbers low <= x < high, as messages call them; a field declares one as in `Annotated[int, Limit(...)]`."""

    words: str
    low: int | float
    high: int | float = math.inf

    def check(self, name: str, value: int | float) -> None:
        """Raise unless a value is one of these numbers."""
        if not self.low <= value < self.high:
            raise ValueError(f"{name} must be {self.words}, got {value if isinstance(value, int) else f'{value:g}'}")
        if isinstance(value, int) and value >= 2**63:
            raise ValueError(f"{name} must be below 2^63, got {value}")


Count = Annotated[int, Limit("at least 1", 1)]
NotNegative = Annotated[float, Limit("in [0, inf)", 0)]
Positive = Annotated[float, Limit("in (0, inf)", math.ulp(0.0))]
UnitInterval = Annotated[float, Limit("in [0, 1]", 0, math.nextafter(1, 2))]
OpenUnitInterval = Annotated[float, Limit("in (0, 1)", math.ulp(0.0), 1)]


def checked(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Guard a public function: an argument of a wrong type raises a `ValueError` that names it."""
    signature = inspect.signature(function)
    # Objects fit by their type, dtype and layout, so these are remembered: asking whether a model fits a protocol reads
    # each of its properties, 43 microseconds of every call.
    fitting: set[tuple[Any, ...]] = set()

    @functools.wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        try:
            bound = signature.bind(*args, **options).arguments
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        for name, value in bound.items():
            key = (name, type(value), *(getattr(value, of, None) for of in ("dtype", "layout", "is_meta")))
            if key not in fitting:
                check_type(name, value, _hints(function).get(name, Any))
                if type(value).__module__ != "builtins":  # whose value counts: a number, a text, a list
                    fitting.add(key)
        return function(*args, **options)

    return call


def check_fields(part: Any) -> None:
    """Raise unless every field of a dataclass has the type, and keeps the limit, it is declared with."""
    hints = _hints(part.__class__)
    for item in fields(part):
        check_type(item.name, getattr(part, item.name), hints[item.name])
    for name, limit in limits_of(part.__class__).items():
        if (value := getattr(part, name)) is not None:
            limit.check(name, value)


@functools.cache
def limits_of(kind: Any) -> dict[str, Limit]:
    """Return the limits that fields of a dataclass declare, in `Count | None` those of the number."""
    hints = get_type_hints(kind, include_extras=True)
    parts = ((name, part) for name, hint in hints.items() for part in (hint, *get_args(hint)))
    extras = ((name, extra) for name, part in parts for extra in getattr(part, "__metadata__", ()))
    return {name: extra for name, extra in extras if isinstance(extra, Limit)}


def check_type(name: str, value: Any, hint: Any, words: Mapping[Any, str] = WORDS) -> None:
    """Raise unless a value is what an annotation says; `words` are what the sentence calls the plain types."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError(f"{name} must fit into 64 bits, got a number of {len(str(abs(value)))} digits")
    if not fits(value, hint):
        wanted = in_words(hint, words)
        raise ValueError(f"{name} must be {wanted}, got {_got(value, wanted)}")


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is what an annotation says; unrecognised annotations are accepted."""
    origin, inside = get_origin(hint), get_args(hint)
    kind = origin or hint
    if kind in (Union, UnionType):
        return any(fits(value, part) for part in inside)
    if kind is Literal:
        return any(type(value) is type(choice) and value == choice for choice in inside)
    if kind is Callable:
        return callable(value)
    if origin in (tuple, Sequence):  # JSON has lists only, so a list fits a tuple
        if not isinstance(value, Sequence if origin is Sequence else tuple | list) or isinstance(value, str):
            return False
        kinds = inside[:1] * len(value) if origin is Sequence or inside[-1] is Ellipsis else inside
        return len(value) == len(kinds) and all(map(fits, value, kinds))
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if hasattr(kind, "array_type"):  # a tensor with a shape, of jaxtyping
        refused = NOT_REAL if kind.__name__.startswith("Float") else ()  # checks.py names the other limits
        return isinstance(value, kind.array_type) and str(value.dtype) not in refused and not without_values(value)
    if not isinstance(kind, type) or kind in (Any, object, type):  # a representation is checked where it is used
        return True
    return not isinstance(value, type) and isinstance(value, kind)  # a class has the attributes of its objects


def without_values(tensor: Any) -> str:
    """Return why nothing can be computed from a tensor, with the remedy; an empty text if it can."""
    if getattr(tensor, "is_meta", False):
        return "a tensor on meta, where tensors hold no values; move it to a device"
    layout = str(getattr(tensor, "layout", "torch.strided"))
    return "" if layout == "torch.strided" else f"a tensor of layout {layout}; call .to_dense() first"


def in_words(hint: Any, words: Mapping[Any, str] = WORDS) -> str:
    """Return what messages call a type."""
    origin, inside = get_origin(hint), get_args(hint)
    say = functools.partial(in_words, words=words)
    if origin in (Union, UnionType):
        return " or ".join(map(say, inside))
    if origin is Literal:
        return " or ".join(map(repr, inside))
    if origin is tuple and inside[-1] is not Ellipsis:
        return f"{'a pair' if len(inside) == 2 else 'a tuple'} ({', '.join(map(say, inside))})"
    if origin in (tuple, Sequence):
        item = say(inside[0])
        return f"a sequence of {item[2:]}s" if inside[0] in (int, float, str) else f"a sequence, each item {item}"
    if hasattr(hint, "array_type"):
        return f"{TENSORS.get(hint.__name__.split('[')[0], 'a tensor')} of shape [{', '.join(hint.dim_str.split())}]"
    kind = dict if dict in words and is_dataclass(hint) else origin or hint
    plain = getattr(kind, "__name__", str(hint))
    return words.get(kind, f"{'an' if plain[:1] in 'AEIOUaeiou' else 'a'} {plain}")


def _got(value: Any, wanted: str) -> str:
    """Return what messages call a wrong value, with the remedy where there is one."""
    kind = type(value)
    if isinstance(value, type | FunctionType):
        what = "class" if isinstance(value, type) else "function"
        return f"the {what} {value.__name__} itself; build one, as in {value.__name__}(...)"
    name = "numpy array" if kind.__module__ == "numpy" else "tensor" if hasattr(value, "dtype") else kind.__name__
    if "tensor" in wanted.lower() and "pair" not in wanted and kind.__name__ in REMEDIES:
        return f"a {name}; pass {REMEDIES[kind.__name__]}"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return without_values(value) or f"a {name} of shape {list(value.shape)} and {value.dtype}"
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
