"""Commands by name: a module of this folder, or another package through `tokenloom.commands`, adds one.

A command is a function whose parameters are its options.  One whose options depend on the arguments (on the recipe they
name, say) is a factory: it is given the arguments and returns the function.
"""

import ast
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenloom.support.registry import Directory

COMMANDS: Directory[Any] = Directory("command", "tokenloom.commands", "tokenloom.cli")


def made(name: str, args: Sequence[str]) -> Callable[..., Any]:
    """Return the command of a name, for these arguments."""
    found: Callable[..., Any] = COMMANDS[name]
    return found(args) if getattr(found, "makes_command", False) else found


def factory(make: Callable[[Sequence[str]], Callable[..., None]]) -> Callable[[Sequence[str]], Callable[..., None]]:
    """Mark a function that makes the command from the arguments."""
    make.makes_command = True  # type: ignore[attr-defined]
    return make


def read_ahead(args: Sequence[str], key: str) -> str | None:
    """Return the value of an option among the arguments, before they are parsed."""
    for index, argument in enumerate(args):
        if argument == key and index + 1 < len(args):
            return args[index + 1]
        if argument.startswith(key + "="):
            return argument.removeprefix(key + "=")
    return None


def summaries() -> dict[str, str]:
    """Return every command and its line of the help, read from the source: importing them all would load PyTorch.

    It is the first paragraph of a docstring: that of the function named like the command, which a factory makes inside,
    or else of the function that is registered.
    """
    modules = pkgutil.iter_modules([str(Path(__file__).parent)], f"{COMMANDS.folder}.")
    inside = [found for module in modules for found in _registered(module.name)]
    outside = [(point.name, _of_entry_point(point)) for point in entry_points(group=COMMANDS.group)]
    return {name: line.partition("\n\n")[0] for name, line in sorted([*inside, *outside])}


def _registered(module: str) -> Iterator[tuple[str, str]]:
    """Yield the commands that a module registers, with their docstrings."""
    functions = _functions(module)
    documented = {function.name: text for function in functions if (text := ast.get_docstring(function))}
    for function in functions:
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "COMMANDS.register":
                name = ast.literal_eval(decorator.args[0])
                yield name, documented.get(name.replace("-", "_"), documented.get(function.name, ""))


def _of_entry_point(point: EntryPoint) -> str:
    """Return the docstring of a command elsewhere; what is wrong with its package is said when the command is used."""
    try:
        functions = {function.name: function for function in _functions(point.module)}
    except Exception:
        return f"A command of another package, which could not be read from {point.value}."
    function = functions.get(point.name.replace("-", "_"), functions.get(point.attr))
    return (function and ast.get_docstring(function)) or f"A command of the package {point.module.partition('.')[0]}."


def _functions(module: str) -> list[ast.FunctionDef]:
    """Return the functions in the source of a module, which is found but not imported."""
    spec = find_spec(module)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(module)
    source = spec.loader.get_source(module)  # type: ignore[attr-defined]
    return [node for node in ast.walk(ast.parse(source or "")) if isinstance(node, ast.FunctionDef)]
