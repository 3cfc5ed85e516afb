"""`tokenloom bench`: speed and memory, as ratios within one run; the measurements live in benchmarks/ of a clone.

Every `benchmarks/bench_<name>.py` is a subcommand: its `main` is a function whose parameters are its options.
"""

from collections.abc import Sequence
from typing import Any

import tyro

from tokenloom.cli.clone import CLONE, from_clone
from tokenloom.cli.registry import COMMANDS, factory
from tokenloom.support.checks import nearest


@COMMANDS.register("bench")
@factory
def bench_command(args: Sequence[str]) -> Any:
    """The benchmarks of the clone, which are only imported where the arguments ask for them."""
    names = sorted(file.stem.removeprefix("bench_") for file in (CLONE / "benchmarks").glob("bench_*.py"))
    if not names or list(args[:1]) != ["bench"]:
        return bench
    asked = next((name for name in args[1:2] if not name.startswith("-")), None)
    if asked is not None and asked not in names:
        raise ValueError(f"there is no benchmark {asked}; {nearest(asked, names)}")
    group = tyro.extras.SubcommandApp()
    group.__doc__ = bench.__doc__
    for name in names:
        module = from_clone(f"benchmarks.bench_{name}")
        assert module is not None
        group.command(name=name)(module.main)
    return group


def bench() -> None:
    """Measure speed and memory, as ratios within one run."""
    raise ValueError("benchmarks are part of a clone of the repository, not of the installed package")
