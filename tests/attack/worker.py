"""Tries in processes of their own: forked, with a limit on time and memory, no terminal, and a folder that is removed.

So a try can neither hang the attack nor eat the machine's memory nor spoil the next one.
"""

import faulthandler
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.attack.guard import confine
from tests.attack.outcome import PACKAGE, Outcome, verdict_of

FORK = multiprocessing.get_context("fork")
MEMORY = 2 << 30
"""Bytes that a try may add to the address space it starts with."""


@dataclass(frozen=True)
class Case:
    """One try in a folder of its own: `act` returns where the result is right, and raises where it is not.

    `prepare` sets the folder up and says what is tried; it runs outside the limits.
    """

    kind: str
    index: int
    prepare: Callable[[Path], str]
    act: Callable[[Path], None]
    seconds: float = 10.0
    """Without a result by then it hangs."""


@dataclass
class _Running:
    """A process and the cases it works through, one after the other."""

    cases: list[Case]
    titles: list[str]
    folder: Path
    process: Any
    pipe: Connection
    deadline: float


def run_all(cases: Iterable[Case], scratch: Path, jobs: int = 1, chunk: int = 1) -> Iterator[Outcome]:
    """The outcome of every case, `jobs` processes at a time with up to `chunk` cases each."""
    waiting, running = iter(cases), list[_Running]()
    while True:
        while len(running) < jobs and (some := list(islice(waiting, chunk))):
            running.append(_start(some, scratch))
        if not running:
            return
        soonest = min(item.deadline for item in running)
        ready = wait([item.pipe for item in running], max(0.0, soonest - time.monotonic()))
        for item in list(running):
            if item.pipe in ready or time.monotonic() >= item.deadline:
                yield _next_outcome(item, item.pipe in ready)
                if item.pipe.closed:
                    running.remove(item)
                    running += [_start(item.cases, scratch)] if item.cases else []


def _start(cases: list[Case], scratch: Path) -> _Running:
    folder = scratch / f"{cases[0].kind}-{cases[0].index}"
    (folder / "here").mkdir(parents=True)
    titles = [case.prepare(folder / "here") for case in cases]
    reader, writer = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_child, args=(cases, folder, writer))
    process.start()
    writer.close()
    return _Running(list(cases), titles, folder, process, reader, time.monotonic() + cases[0].seconds)


def _child(cases: list[Case], folder: Path, writer: Connection) -> None:
    """Run the cases and send the verdict on each; never returns."""
    try:
        os.setsid()
        _limit(folder)
        confine(folder.parent)
        for case in cases:
            with (folder / "stack").open("w") as stack:
                faulthandler.dump_traceback_later(case.seconds * 0.9, file=stack)
                try:
                    case.act(folder / "here")
                    found = ("result", "", "")
                except BaseException as error:
                    found = verdict_of(error)
                faulthandler.cancel_dump_traceback_later()
            writer.send(found)
    finally:
        os._exit(0)


def _limit(folder: Path) -> None:
    output = os.open(folder / "output", os.O_CREAT | os.O_WRONLY)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(folder / "here")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdin = open(0)  # noqa: SIM115


def _next_outcome(item: _Running, ready: bool) -> Outcome:
    """The verdict that came, or what it means that none came; a process that is over has a closed pipe."""
    case, title = item.cases.pop(0), item.titles.pop(0)
    try:
        found = item.pipe.recv() if ready else None
    except EOFError:
        item.process.join()
        found = ("crash", f"the process ended with status {item.process.exitcode}", "")
        ready = False
    found = found or ("hang", f"no result in {case.seconds:g} s", _stack(item.folder / "stack"))
    if ready and item.cases:
        item.deadline = time.monotonic() + item.cases[0].seconds
    else:
        with suppress(ProcessLookupError):
            os.killpg(item.process.pid, signal.SIGKILL)  # with what it started
        item.process.join()
        item.pipe.close()
        shutil.rmtree(item.folder, ignore_errors=True)
    return Outcome(case.kind, case.index, title, *found)


def _stack(path: Path) -> str:
    """The innermost line of the package in a dump of the interpreter, in which the main thread comes last."""
    text = path.read_text() if path.is_file() else ""
    ours = [line for line in re.split("hread 0x", text)[-1].splitlines() if PACKAGE in line]
    return ours[0].replace(PACKAGE, "").strip() if ours else ""
