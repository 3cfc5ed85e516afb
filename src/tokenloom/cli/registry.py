"""Commands by name: a module of this folder, or another package through `tokenloom.commands`, adds one.

A command is a function whose parameters are its options.  One whose options depend on the arguments (on the recipe they
name, say) is a factory: it is given the arguments and returns the function.
"""

from collections.abc import Callable, Sequence
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
