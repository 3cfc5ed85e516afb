"""Commands beside processes that keep every core busy: they end, within a generous factor of the time they take alone.

Twice as long is fair; threads that spin while they wait take 10 to 100 times as long (`tokenloom bench busy`).
"""

import os
import tempfile
from pathlib import Path

from benchmarks import bench_busy
from tests.attack.outcome import FoundError
from tests.attack.worker import Case
from tests.attack.workspace import Workspace

FACTOR = 5
LINES = (
    "sample shakespeare-udm-loo --num 2 --steps 32", "solve 1...............",
    "evaluate sudoku4-udm-loo --sequences 64", "train --recipe sudoku4 --max-steps 40 --out run",
    "sample sudoku --num 4 --steps 16",
    "probe sudoku4-udm-loo --sequences 2 --positions 2 --times 0.5 --out out",
)  # fmt: skip


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    line = LINES[index % len(LINES)]
    return Case(
        "busy", index, lambda here: f"tokenloom {line} beside busy processes", lambda here: _act(line, here), 120
    )


def _act(line: str, here: Path) -> None:
    tempfile.tempdir = str(here)
    command = (*bench_busy.MODULE, *line.split())
    alone = bench_busy.seconds(command)
    with bench_busy.busy(os.cpu_count() or 1):
        beside = bench_busy.seconds(command)
    if beside > FACTOR * alone:
        raise FoundError(("hang", f"{beside:.1f} s, and {alone:.1f} s alone", ""))
