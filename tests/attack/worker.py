"""Tries in processes of their own: forked, with a limit on time and memory, no terminal, and a folder that is removed.

So a try can neither hang the attack nor eat the machine's memory nor spoil the next one.
"""

import faulthandler
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from tests.attack.guard import confine
from tests.attack.outcome import PACKAGE, Outcome, verdict_of

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
    process: int
    pipe: int
    deadline: float
    content: bytes = b""
    """What it wrote since its last verdict."""


def run_all(cases: Iterable[Case], scratch: Path, jobs: int = 1, chunk: int = 1) -> Iterator[Outcome]:
    """The outcome of every case, `jobs` processes at a time with up to `chunk` cases each."""
    waiting, running = iter(cases), list[_Running]()
    while True:
        while len(running) < jobs and (some := list(islice(waiting, chunk))):
            running.append(_start(some, scratch))
        if not running:
            return
        soonest = min(item.deadline for item in running)
        ready, _, _ = select.select([item.pipe for item in running], [], [], max(0.0, soonest - time.monotonic()))
        for item in list(running):
            if item.pipe in ready or time.monotonic() >= item.deadline:
                yield from _advance(item, item.pipe in ready)
                if not item.cases:
                    running.remove(item)
                elif item.process == 0:
                    running.remove(item)
                    running.append(_start(item.cases, scratch))


def _start(cases: list[Case], scratch: Path) -> _Running:
    folder = scratch / f"{cases[0].kind}-{cases[0].index}"
    (folder / "here").mkdir(parents=True)
    titles = [case.prepare(folder / "here") for case in cases]
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reader)
        _child(cases, folder, writer)
    os.close(writer)
    return _Running(list(cases), titles, folder, process, reader, time.monotonic() + cases[0].seconds)


def _child(cases: list[Case], folder: Path, writer: int) -> None:
    """Run the cases and write a line with the verdict on each; never returns."""
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
            os.write(writer, json.dumps(found).encode() + b"\n")
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


def _advance(item: _Running, ready: bool) -> Iterator[Outcome]:
    """The verdicts that came, and what it means where none came; a process that is over has number 0."""
    part = os.read(item.pipe, 1 << 16) if ready else b""
    item.content += part
    *lines, item.content = item.content.split(b"\n")
    for line in lines:
        yield _outcome(item, *json.loads(line))
    if lines:
        item.deadline = time.monotonic() + (item.cases[0].seconds if item.cases else 10)
    if part and item.cases:
        return
    if not ready and item.cases:
        words = f"no result in {item.cases[0].seconds:g} s"
        yield _outcome(item, "hang", words, _stack(item.folder / "stack"))
    with suppress(ProcessLookupError):
        os.killpg(item.process, signal.SIGKILL)  # with what it started
    _, status = os.waitpid(item.process, 0)
    if ready and item.cases:
        yield _outcome(item, "crash", f"the process ended with status {status}", "")
    os.close(item.pipe)
    shutil.rmtree(item.folder, ignore_errors=True)
    item.process = 0


def _outcome(item: _Running, verdict: str, words: str, where: str) -> Outcome:
    case = item.cases.pop(0)
    return Outcome(case.kind, case.index, item.titles.pop(0), verdict, words, where)


def _stack(path: Path) -> str:
    """The innermost line of the package in a dump of the interpreter, in which the main thread comes last."""
    text = path.read_text() if path.is_file() else ""
    ours = [line for line in re.split("hread 0x", text)[-1].splitlines() if PACKAGE in line]
    return ours[0].replace(PACKAGE, "").strip() if ours else ""


def record(outcome: Outcome) -> dict[str, object]:
    """An outcome as JSON."""
    return asdict(outcome)
