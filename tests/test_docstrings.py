"""Every public callable says what it takes, what it returns and what it refuses.

A parameter is named by an `Args:` line or, as the field of a dataclass, by the docstring below it.  An override need
not repeat what the method it overrides says.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tokenloom import public
from tokenloom.nn import NETWORKS
from tokenloom.objectives import OBJECTIVES
from tokenloom.processes import PROCESSES
from tokenloom.samplers import CORRECTORS, PREDICTORS

PAGES = sorted((Path(__file__).parents[1] / "docs" / "api").glob("*.md"))
SECTION = re.compile(r"^(Args|Returns|Yields|Raises):\n((?:(?:    .*)?(?:\n|$))*)", re.MULTILINE)
ENTRY = re.compile(r"^    \**(\w+):", re.MULTILINE)
SHOWN = re.compile(r"^::: (\S+)\n(?:    options:\n((?:      .*\n)*))?", re.MULTILINE)


# ---------------------------------------------------------------- the public surface


def exported(module: ModuleType) -> Iterator[Any]:
    """What a module exports, with what the modules among it export."""
    for name in module.__all__:
        part = getattr(module, name)
        yield from exported(part) if inspect.ismodule(part) else [part]


def shown(page: str) -> Iterator[Any]:
    """What the directives of an API page show."""
    for path, options in SHOWN.findall(page):
        members = re.search(r"members: \[(.*)\]", options)
        if members:
            yield from (getattr(importlib.import_module(path), name) for name in members[1].split(", "))
        elif "show_submodules" in options:
            package = importlib.import_module(path)
            for item in pkgutil.iter_modules(package.__path__, f"{path}."):
                module = importlib.import_module(item.name)
                own = [part for name, part in vars(module).items() if not name.startswith("_")]
                yield from (part for part in own if getattr(part, "__module__", None) == item.name)
        else:
            module_path, _, name = path.rpartition(".")
            yield getattr(importlib.import_module(module_path), name)


def surface() -> list[Any]:
    """Public functions and classes, each class with those of our classes that it inherits from."""
    registries = (PROCESSES, PREDICTORS, CORRECTORS, OBJECTIVES, NETWORKS)
    found = [*exported(public), *(registry[name] for registry in registries for name in registry)]
    found += [part for page in PAGES for part in shown(page.read_text() + "\n")]
    whole = [base for part in found for base in (part.__mro__ if inspect.isclass(part) else [part])]
    ours = [part for part in whole if callable(part) and getattr(part, "__module__", "").startswith("tokenloom.")]
    unique = {f"{part.__module__}.{part.__qualname__}": part for part in ours if hasattr(part, "__qualname__")}
    return [unique[name] for name in sorted(unique)]


# ---------------------------------------------------------------- what a docstring says


def sections(docstring: str) -> dict[str, str]:
    return dict(SECTION.findall(inspect.cleandoc(docstring)))


def entries(docstring: str) -> set[str]:
    """The names in its `Args:`."""
    return set(ENTRY.findall(sections(docstring).get("Args", "")))


@cache
def tree(part: Any) -> ast.AST:
    return ast.parse(textwrap.dedent(inspect.getsource(part)))


def raises(function: Any) -> bool:
    """Whether its body raises, or calls a check."""
    for node in ast.walk(tree(function)):
        called = node.func if isinstance(node, ast.Call) else None
        name = getattr(called, "id", getattr(called, "attr", ""))
        if isinstance(node, ast.Raise) or name.startswith("check_"):
            return True
    return False


def documented_fields(kind: type) -> set[str]:
    """Fields with a docstring below them, in the class and those of ours that it inherits from."""
    found: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith(("tokenloom.", __name__)):
            (body,) = (node.body for node in ast.walk(tree(base)) if isinstance(node, ast.ClassDef))
            for node, following in pairwise(body):
                if isinstance(node, ast.AnnAssign) and isinstance(following, ast.Expr):
                    found.add(ast.unparse(node.target))
    return found


# ---------------------------------------------------------------- what is missing


def missing(function: Any, docstring: str, own: str, returns: bool = True) -> Iterator[str]:
    """What a docstring does not say of a function; `own` is the part of it that stands at the function itself."""
    signature = inspect.signature(function)
    taken = {name for name in signature.parameters if name not in ("self", "cls")}
    yield from (f"no Args line names {name}" for name in sorted(taken - entries(docstring)))
    yield from (f"Args names {name}, which is not a parameter" for name in sorted(entries(own) - taken))
    given = sections(docstring)
    if returns and signature.return_annotation not in (None, "None") and not {"Returns", "Yields"} & given.keys():
        yield "no Returns"
    if raises(function) and "Raises" not in given:
        yield "no Raises"


def of_class(kind: type) -> Iterator[str]:
    """What the docstrings of a class do not say of its constructor and its methods."""
    docstring, constructor = kind.__doc__ or "", vars(kind).get("__init__")
    if is_dataclass(kind):
        taken = {item.name for item in fields(kind) if item.init}
        nameless = taken - documented_fields(kind) - entries(docstring)
        yield from (f"{kind.__name__}: no docstring below the field {name}" for name in sorted(nameless))
        check = vars(kind).get("__post_init__")
        if check is not None and raises(check) and "Raises" not in sections(docstring):
            yield f"{kind.__name__}: no Raises"
    elif isinstance(constructor, FunctionType) and not getattr(kind, "_is_protocol", False):
        both = inspect.cleandoc(docstring) + "\n\n" + inspect.cleandoc(constructor.__doc__ or "")
        yield from (f"{kind.__name__}: {text}" for text in missing(constructor, both, both, returns=False))
    for name, member in vars(kind).items():
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and (not name.startswith("_") or name == "__call__"):
            yield from (f"{kind.__name__}.{name}: {text}" for text in of_method(kind, name, function))


def of_method(kind: type, name: str, function: FunctionType) -> Iterator[str]:
    """An override inherits the docstring, or the sections, of what it overrides."""
    own = function.__doc__ or ""
    above = [getattr(vars(base).get(name), "__doc__", None) or "" for base in kind.__mro__[1:]]
    whole = "\n\n".join(inspect.cleandoc(text) for text in (own, *above))
    yield from missing(function, whole, own)


def complaints(part: Any) -> list[str]:
    """Everything that the docstrings of a function or a class do not say."""
    if inspect.isclass(part):
        return list(of_class(part))
    return [f"{part.__name__}: {text}" for text in missing(part, part.__doc__ or "", part.__doc__ or "")]


# ---------------------------------------------------------------- the tests


def test_the_surface_is_what_users_and_authors_of_parts_see() -> None:
    names = {part.__qualname__ for part in surface()}
    seen = {"sample", "Uniform", "Hybrid", "Psi", "Informed", "DiT", "GridNetwork", "Kernel", "load_text", "ForwardLaw"}
    assert seen <= names
    assert len(names) > 100


@pytest.mark.parametrize("part", surface(), ids=lambda part: part.__qualname__)
def test_public_callable_documents_what_it_takes_returns_and_refuses(part: Any) -> None:
    assert not complaints(part)


def offending(x: int, y: int) -> int:
    """Says too little of one parameter, and too much of another.

    Args:
        x: A number.
        z: Not there.
    """
    if x > y:
        raise ValueError("x is above y")
    return x


def checking(x: int) -> None:
    """Calls a check.

    Args:
        x: A number.
    """
    check_nothing(x)


def check_nothing(x: int) -> None: ...


@dataclass(frozen=True)
class Base:
    """A dataclass."""

    told: int
    """What it is."""
    untold: int

    def __post_init__(self) -> None:
        check_nothing(self.told)

    def double(self, times: int) -> int:
        """The double.

        Args:
            times: How often.

        Returns:
            A number.
        """
        return 2 * self.told * times


class Override(Base):
    """An override inherits what it does not say, and owes what it adds."""

    def double(self, times: int, more: int = 0) -> int:
        return super().double(times) + more


class Built:
    """Says nothing of its constructor."""

    def __init__(self, size: int) -> None:
        self.size = size


def test_checker_finds_what_is_missing_and_what_is_not_there() -> None:
    assert complaints(offending) == [
        "offending: no Args line names y",
        "offending: Args names z, which is not a parameter",
        "offending: no Returns",
        "offending: no Raises",
    ]
    assert complaints(checking) == ["checking: no Raises"]
    assert complaints(Base) == ["Base: no docstring below the field untold", "Base: no Raises"]
    assert complaints(Override) == [
        "Override: no docstring below the field untold",
        "Override.double: no Args line names more",
    ]
    assert complaints(Built) == ["Built: no Args line names size"]


def test_checker_reads_both_kinds_of_directive() -> None:
    page = (
        "::: tokenloom.support.about.About\n::: tokenloom.evaluation.metrics\n    options:\n      members: [distinct]\n"
    )
    assert [part.__name__ for part in shown(page)] == ["About", "distinct"]
    folder = "::: tokenloom.samplers.correctors\n    options:\n      show_submodules: true\n"
    assert {"Informed", "ForwardBackward", "margins"} <= {part.__name__ for part in shown(folder)}
