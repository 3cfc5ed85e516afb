"""`tokenloom bench` and `tokenloom evidence`: benchmarks and the paper's claims, which are part of a clone.

Every `benchmarks/bench_<name>.py` is a subcommand of `bench`: its `main` is a function whose parameters are its
options.  A module of the clone is only imported where the arguments ask for it.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import tyro

from tokenloom.cli.registry import COMMANDS, factory
from tokenloom.support.words import nearest

CLONE = Path(__file__).parents[3]


def from_clone(module: str) -> Any:
    """Import a module of the clone."""
    if str(CLONE) not in sys.path:
        sys.path.insert(0, str(CLONE))
    return import_module(module)


@COMMANDS.register("bench")
@factory
def bench_command(args: Sequence[str]) -> Any:
    """Return the benchmarks of the clone as subcommands."""
    names = sorted(file.stem.removeprefix("bench_") for file in (CLONE / "benchmarks").glob("bench_*.py"))
    if not names or not args:
        return bench
    asked = next((name for name in args[1:2] if not name.startswith("-")), None)
    if asked is not None and asked not in names:
        raise ValueError(f"there is no benchmark {asked}; {nearest(asked, names)}")
    group = tyro.extras.SubcommandApp()
    group.__doc__ = bench.__doc__
    for name in names:
        group.command(name=name)(from_clone(f"benchmarks.bench_{name}").main)
    return group


def bench() -> None:
    """Measure speed and memory, as ratios within one run."""
    raise ValueError("benchmarks are part of a clone of the repository, not of the installed package")


@COMMANDS.register("evidence")
@factory
def evidence_command(args: Sequence[str]) -> Any:
    """Return the command of the clone."""
    here = (CLONE / "evidence" / "__init__.py").is_file()
    return from_clone("evidence.command").evidence if args and here else evidence


def evidence() -> None:
    """Test the paper's claims again: train and measure what is missing, print verdicts, render docs/evidence.md."""
    raise ValueError("the claims are part of a clone of the repository, not of the installed package")
