"""`python -m tests.attack`: everything ends in a right result or in a sentence, or this ends with status 1.

Case n of a kind depends on the seed and n alone: `--kind files --case 137` repeats it, and shows its output.
The shape checks of the tests are off, as they are for users.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from tests.attack import calls, commands, files, kills
from tests.attack.outcome import Outcome
from tests.attack.report import failures, table
from tests.attack.worker import Case, record, run_all
from tests.attack.workspace import Workspace, build

KINDS: dict[str, Callable[[int, int, Workspace], Case]] = {
    "files": files.case,
    "commands": commands.case,
    "calls": calls.case,
    "kills": kills.case,
}
COUNTS = {"files": 500, "commands": 300, "calls": 4000, "kills": 40}
"""Cases of each kind in a whole attack."""
CHUNKS = {"calls": 25}
"""Cases that share a process: a call changes nothing that the next one sees, and a process costs more than a call."""


def main() -> None:
    options = _options()
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        folder = Path(name).resolve()
        os.environ |= {key: str(folder / "scratch" / "cache") for key in ("MPLCONFIGDIR", "HF_HOME")}
        os.environ |= {
            "TOKENIZERS_PARALLELISM": "false",
            "COLUMNS": "200",
            "HF_HUB_OFFLINE": "1",
            "WANDB_MODE": "offline",
        }
        (folder / "space").mkdir()
        space = build(folder / "space", complete=options.share == 1)
        outcomes = attack(options, space, folder / "scratch")
    text = f"{table(outcomes)}\n\n{failures(outcomes)}".rstrip()
    print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps([record(outcome) for outcome in outcomes], indent=1))
    sys.exit(any(not outcome.good for outcome in outcomes))


def attack(options: argparse.Namespace, space: Workspace, scratch: Path) -> list[Outcome]:
    """The outcomes of all cases that were asked for, in the time allowed."""
    deadline, outcomes = time.monotonic() + 60 * options.minutes, list[Outcome]()
    _ = space.samples, space.predictions, space.whole, space.end  # before the first fork
    for number, kind in enumerate(options.kinds):
        now = time.monotonic()
        until = now + (deadline - now) / (len(options.kinds) - number)
        cases = _cases(kind, options, space, until)
        for outcome in run_all(cases, scratch, options.jobs, CHUNKS.get(kind, 1)):
            outcomes.append(outcome)
            if options.case is not None or (options.verbose and not outcome.good):
                print(outcome, flush=True)
    return outcomes


def _cases(kind: str, options: argparse.Namespace, space: Workspace, until: float) -> Iterator[Case]:
    numbers = range(int(COUNTS[kind] * options.share)) if options.case is None else [options.case]
    for index in numbers:
        if time.monotonic() > until:
            print(f"{kind}: the time was over after {index} of {len(numbers)} cases")
            return
        case = KINDS[kind](options.seed, index, space)
        yield replace(case, seconds=case.seconds * options.patience)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="stop after this many minutes")
    parser.add_argument("--share", type=float, default=1.0, help="this part of the cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--patience", type=float, default=1, help="a factor of the time after which a case hangs")
    parser.add_argument(
        "--kind", dest="kinds", action="append", choices=list(KINDS), help="only this kind (repeatable)"
    )
    parser.add_argument("--case", type=int, help="only the case of this number")
    parser.add_argument("--verbose", action="store_true", help="print each failure when it happens")
    parser.add_argument("--out", type=Path, help="write every outcome to this file as JSON")
    options = parser.parse_args()
    options.kinds = options.kinds or list(KINDS)
    return options
