"""`tokenloom bench busy`: commands beside processes that keep every core busy, against the same commands alone.

Both take turns, each in a process of its own, from its start to its end.  A ratio is formed within a round.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path

import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.account import Spread
from tokenloom.support.files import write_json

MODULE = ("-m", "tokenloom")
HARD = "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4.."
CASES: dict[str, tuple[str, ...]] = {
    "sample": (*MODULE, "sample", "shakespeare-udm-loo", "--num", "2", "--steps", "128"),
    "solve": (*MODULE, "solve", HARD, "--tries", "16"),
    "evaluate": (*MODULE, "evaluate", "sudoku4-udm-loo", "--sequences", "256"),
    "train": (*MODULE, "train", "--recipe", "sudoku4", "--max-steps", "200"),
    "a loop of plain Python": ("-c", "for _ in range(80_000_000): pass"),  # what is fair on this machine
    "tl.sample": ("-c", "import tokenloom as tl; tl.sample(tl.load('shakespeare-udm-loo'), 4, steps=64)"),
}


@dataclass(frozen=True)
class Row:
    """One command, in seconds."""

    name: str
    alone: Spread
    beside: Spread
    ratio: Spread


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep this many cores busy from outside."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def seconds(arguments: Sequence[str]) -> float:
    """Run Python with these arguments in an empty folder; the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, check=True)
        return time.perf_counter() - start


def measure(name: str, processes: int, rounds: int) -> Row:
    """A command alone and beside busy processes, in turns."""
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(seconds(CASES[name]))
        with busy(processes):
            beside.append(seconds(CASES[name]))
    ratios = [slow / fast for slow, fast in zip(beside, alone, strict=True)]
    return Row(name, Spread.of(alone), Spread.of(beside), Spread.of(ratios))


def main(
    only: tuple[str, ...] = tuple(CASES),
    processes: int = 2,
    rounds: int = 5,
    json: bool = False,
    out: Path | None = None,
) -> None:
    """Measure how much longer commands take beside busy processes.

    Args:
        only: The commands to measure.
        processes: Busy processes beside them.
        rounds: How often each is timed alone and beside them.
        json: Print JSON instead of a table.
        out: Write the same JSON to this file.
    """
    if min(processes, rounds) < 1:
        raise ValueError(f"processes and rounds must be at least 1, got {processes} and {rounds}")
    for name in set(only) - CASES.keys():
        raise ValueError(f"there is no command {name} to measure; there are {', '.join(CASES)}")
    rows = [measure(name, processes, rounds) for name in track(only, "commands", console=Console(stderr=True))]
    record = {"processes": processes, "rounds": rounds, "rows": [asdict(row) for row in rows]}
    if out is not None:
        write_json(out, record)
    if json:
        print(dumps(record, indent=2))
        return
    table = Table("", "alone, s", "beside, s", "times as long", title=f"Beside {processes} busy processes")
    for row in rows:
        table.add_row(row.name, str(row.alone), str(row.beside), str(row.ratio))
    Console().print(table)


if __name__ == "__main__":
    tyro.cli(main)
