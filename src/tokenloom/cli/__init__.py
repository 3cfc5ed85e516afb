"""The command line: one file a command."""

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

import tyro
from rich.console import Console
from rich.markup import escape

from tokenloom.cli.bench_sampling import sampling
from tokenloom.cli.bench_training import training
from tokenloom.cli.evaluate import evaluate
from tokenloom.cli.frontier import frontier
from tokenloom.cli.probe import probe_command
from tokenloom.cli.quickstart import quickstart
from tokenloom.cli.sample import sample
from tokenloom.cli.solve import solve
from tokenloom.cli.train import train_command

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
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        sys.exit(130)


def fail(sentence: str) -> NoReturn:
    """Say what is wrong and end with status 2."""
    Console(stderr=True).print(f"[bold red]error:[/] {escape(sentence)}", highlight=False, soft_wrap=True)
    sys.exit(2)


def app(args: Sequence[str]) -> tyro.extras.SubcommandApp:
    """All commands; `train` takes its defaults from the recipe among the arguments."""
    bench = tyro.extras.SubcommandApp()
    bench.command(training)
    bench.command(sampling)
    commands = tyro.extras.SubcommandApp()
    commands.command(quickstart)
    commands.command(name="train")(train_command(args))
    commands.command(sample)
    commands.command(evaluate)
    commands.command(frontier)
    commands.command(solve)
    commands.command(name="probe")(probe_command)
    commands.command(bench, name="bench", help="Measure speed and memory, as ratios within one run.")
    return commands
