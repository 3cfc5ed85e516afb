"""Commands by name: a module of this folder, or another package through `tokenloom.commands`, adds one.

A command is a function whose parameters are its options.  One whose options depend on the arguments (on the recipe they
name, say) is a factory: it is given the arguments and returns the function.
"""

import ast
import pkgutil
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
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
    lines: dict[str, str] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)], f"{COMMANDS.folder}."):
        functions = _functions(module.name)
        for function in functions:
            for decorator in function.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "COMMANDS.register":
                    name = ast.literal_eval(decorator.args[0])
                    lines[name] = _line(functions, name, function.name)
    for point in entry_points(group=COMMANDS.group):
        try:
            found = _line(_functions(point.module), point.name, point.attr)
        except Exception:  # what is wrong with its package is said when the command is used
            found = f"A command of another package, which could not be read from {point.value}."
        lines[point.name] = found or f"A command of the package {point.module.partition('.')[0]}."
    return dict(sorted(lines.items()))


def _functions(module: str) -> list[ast.FunctionDef]:
    """Return the functions in the source of a module, which is found but not imported."""
    source = find_spec(module).loader.get_source(module)  # type: ignore[union-attr]
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]


def _line(functions: Sequence[ast.FunctionDef], command: str, registered: str) -> str:
    documented = {function.name: text for function in functions if (text := ast.get_docstring(function))}
    text = documented.get(command.replace("-", "_"), documented.get(registered, ""))
    return text.partition("\n\n")[0]
