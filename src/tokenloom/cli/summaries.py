"""The lines of `tokenloom --help`, read from the source of every command: importing them all would load PyTorch.

It is the first paragraph of a docstring: that of the function named like the command, which a factory makes inside, or
else of the function that is registered.
"""

import ast
import pkgutil
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec


def summaries(folder: str, group: str) -> dict[str, str]:
    """Return every command and its line: those registered by modules of a package, and entry points of a group."""
    package = find_spec(folder)
    places = package.submodule_search_locations if package else None
    inside = [found for module in pkgutil.iter_modules(places, f"{folder}.") for found in _registered(module.name)]
    outside = [(point.name, _of_entry_point(point)) for point in entry_points(group=group)]
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
