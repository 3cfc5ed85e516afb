"""The command line: one file per command, and one for the two of a clone.

Nothing large is imported before a command is named, so that `--help` is immediate and Ctrl-C is quiet from the start.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from tokenloom import __version__
from tokenloom.cli.terminal import open_closed_streams, spell_out, widen

if TYPE_CHECKING:
    import tyro

OUT_OF_MEMORY = ("out of memory", "can't allocate", "cannot allocate", "storage size calculation overflow")
"""Substrings of PyTorch's out-of-memory errors."""


def main(args: Sequence[str] | None = None) -> None:
    """Run a command; a wrong input ends in one sentence, not in a traceback."""
    open_closed_streams()
    spell_out(sys.stdout, sys.stderr)
    widen()
    given = list(sys.argv[1:] if args is None else args)
    try:
        if given in (["--version"], ["-V"]):
            print(f"tokenloom {__version__}")
            return
        with _ending_at_once():
            commands = app(given)
        commands.cli(args=given, prog="tokenloom", description="Discrete diffusion with uniform and masked noise.")
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
        print("interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process: an exception inside the libraries that are loaded here can abort them instead."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield
        return

    def end(number: int, frame: object) -> None:
        os.write(2, b"interrupted\n")
        os._exit(128 + number)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def fail(sentence: str) -> NoReturn:
    """Print what is wrong and exit with status 2."""
    from rich.console import Console
    from rich.markup import escape

    Console(stderr=True).print(f"[bold red]error:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
    sys.exit(2)


def app(args: Sequence[str]) -> "tyro.extras.SubcommandApp":
    """Return all commands; only the one that the arguments name is imported (and all of them to write completion)."""
    import tyro

    from tokenloom.cli.registry import COMMANDS, made, summaries
    from tokenloom.support.words import nearest

    lines = dict.fromkeys(COMMANDS.registered, "") | summaries()
    if args and not args[0].startswith("-") and args[0] not in lines:
        raise ValueError(f"there is no command {args[0]}; {nearest(args[0], lines)}")
    completion = any(argument.startswith("--tyro-") for argument in args)
    commands = tyro.extras.SubcommandApp()
    for name, line in lines.items():
        mine = args if args[:1] == [name] else ()
        try:
            found = made(name, mine) if mine or completion else _said(line)
        except ValueError as error:
            if mine:
                raise
            found = _said(str(error))
        commands.command(name=name)(found)
    return commands


def _said(line: str) -> Callable[[], None]:
    """Return a stand-in for a command that is not imported, or cannot be: its line in the help."""

    def stand_in() -> None:
        raise ValueError(line)

    stand_in.__doc__ = line
    return stand_in
