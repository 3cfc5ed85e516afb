"""The command line: one command per file."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import NoReturn

import tyro
from rich.console import Console
from rich.markup import escape

from tokenloom.cli.registry import COMMANDS

OUT_OF_MEMORY = ("out of memory", "can't allocate", "cannot allocate", "storage size calculation overflow")
"""What PyTorch says where memory ends."""


def main(args: Sequence[str] | None = None) -> None:
    """Run a command; a wrong input ends in one sentence, not in a traceback."""
    given = list(sys.argv[1:] if args is None else args)
    if given in (["--version"], ["-V"]):
        print(f"tokenloom {version('tokenloom')}")
        return
    try:
        app(given).cli(args=given, prog="tokenloom", description="Discrete diffusion with uniform and masked noise.")
    except ValueError as error:
        fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(word in str(error).lower() for word in OUT_OF_MEMORY):
            raise
        fail(f"there is not enough memory for this; try a smaller batch, network or data set ({error})")
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        fail(f"{error.filename or 'a file'}: {error.strerror or error}")
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        sys.exit(128 + signal.SIGINT)


def fail(sentence: str) -> NoReturn:
    """Say what is wrong and end with status 2."""
    Console(stderr=True).print(f"[bold red]error:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
    sys.exit(2)


def app(args: Sequence[str]) -> tyro.extras.SubcommandApp:
    """All commands; some take their defaults from what the arguments name."""
    commands = tyro.extras.SubcommandApp()
    for name in COMMANDS:
        mine = args if args[:1] == [name] else ()
        try:
            command = COMMANDS[name]
            made = command(mine) if getattr(command, "makes_command", False) else command
        except ValueError as error:
            if mine:
                raise
            made = _broken(str(error))
        commands.command(name=name)(made)
    return commands


def _broken(sentence: str) -> Callable[[], None]:
    """What stands for a command of another package that cannot be imported: the others still work."""

    def broken() -> None:
        raise ValueError(sentence)

    broken.__doc__ = sentence
    return broken
