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
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from tests.attack import busy, calls, commands, files, headers, kills, terminals, tokenizers
from tests.attack.outcome import failures, table
from tests.attack.worker import Case, run_all
from tests.attack.workspace import Workspace, build


@dataclass(frozen=True)
class Kind:
    """A kind of case."""

    case: Callable[[int, int, Workspace], Case]
    count: int
    """How many a whole attack has."""
    chunk: int = 1
    """How many share a process: a call changes nothing that the next one sees, and a process costs more than a call."""
    jobs: int = 99
    """Most at a time."""


KINDS = {
    "files": Kind(files.case, 800),
    "tokenizers": Kind(tokenizers.case, 600),
    "commands": Kind(commands.case, 300),
    "calls": Kind(calls.case, 4700, chunk=25),
    "headers": Kind(headers.case, 1600, chunk=100),
    "kills": Kind(kills.case, 40),
    "terminals": Kind(terminals.case, 60),
    "busy": Kind(busy.case, 6, jobs=1),
}


def main() -> None:
    options, outcomes = _options(), []
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "COLUMNS": "200", "HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline"}
    with tempfile.TemporaryDirectory(prefix="attack-") as name:
        scratch = Path(name).resolve() / "scratch"
        os.environ |= {key: str(scratch / "cache") for key in ("MPLCONFIGDIR", "HF_HOME")}
        space = build(scratch.with_name("space"), complete=options.share == 1)
        _ = space.samples, space.predictions, space.end  # before the first fork
        left = 60 * options.minutes
        for number, kind in enumerate(options.kinds):
            began = time.monotonic()
            cases = _cases(kind, options, space, began + left / (len(options.kinds) - number))
            for outcome in run_all(cases, scratch, min(options.jobs, KINDS[kind].jobs), KINDS[kind].chunk):
                outcomes.append(outcome)
                if options.case is not None:
                    print(outcome, flush=True)
            left -= time.monotonic() - began
    print(f"{table(outcomes)}\n\n{failures(outcomes)}".rstrip())
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    sys.exit(any(not outcome.good for outcome in outcomes))


def _cases(kind: str, options: argparse.Namespace, space: Workspace, until: float) -> Iterator[Case]:
    numbers = range(int(KINDS[kind].count * options.share)) if options.case is None else [options.case]
    for index in numbers:
        if time.monotonic() > until:
            print(f"{kind}: the time was over after {index} of {len(numbers)} cases")
            return
        case = KINDS[kind].case(options.seed, index, space)
        yield replace(case, seconds=case.seconds * options.patience)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="stop after this many minutes")
    parser.add_argument("--share", type=float, default=1.0, help="this part of the cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time")
    parser.add_argument("--patience", type=float, default=1, help="a factor of the time after which a case hangs")
    parser.add_argument("--kind", dest="kinds", action="append", choices=KINDS, help="only this kind (repeatable)")
    parser.add_argument("--case", type=int, help="only the case of this number")
    parser.add_argument("--out", type=Path, help="write every outcome to this file as JSON")
    options = parser.parse_args()
    options.kinds = options.kinds or list(KINDS)
    return options


if __name__ == "__main__":
    main()
