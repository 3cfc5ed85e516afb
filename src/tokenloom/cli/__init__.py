"""The command line: one file a command."""

import sys
from collections.abc import Sequence

import tyro
from rich.console import Console

from tokenloom.cli.bench_training import training
from tokenloom.cli.quickstart import quickstart

bench = tyro.extras.SubcommandApp()
bench.command(training)

app = tyro.extras.SubcommandApp()
app.command(quickstart)
app.command(bench, name="bench", help="Measure speed and memory, as ratios within one run.")


def main(args: Sequence[str] | None = None) -> None:
    """Run a command; a wrong input ends in one sentence, not in a traceback."""
    try:
        app.cli(args=args, prog="tokenloom", description="Discrete diffusion with uniform and masked noise.")
    except ValueError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {error}", highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        sys.exit(130)
