"""Runs that end in the middle: killed at any instant, between any two changes of the file system, or on a full disk.

Afterwards `--resume` reaches the weights of a run that nothing interrupted, bit for bit; what was complete before is
still there; nothing is left over.  And two runs do not share a folder.
"""

import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import tokenloom as tl
from tests.attack.files import same
from tests.attack.guard import PATHS, changed_paths
from tests.attack.outcome import FoundError, RefusalError, Verdict, WrongError, verdict_of
from tests.attack.worker import FORK, Case
from tests.attack.workspace import MARKOV, Workspace, command, predicted, weights

Work = Callable[[], Any]
Way = Callable[[Work], None]
"""Do some work in a process of its own, and let it end in the middle."""


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"kills {seed} {index}")
    kind = random.choices(("training", "saving", "together"), (12, 6, 1))[0]
    how, way = interruption(random, kind == "saving")
    fresh = random.random() < 0.5
    tries: dict[str, tuple[str, Callable[[Path], None]]] = {
        "training": (f"train{'' if fresh else ' --resume'}, {how}", lambda here: training(space, here, fresh, way)),
        "saving": (f"model.save, {how}", lambda here: saving(space, here, way)),
        "together": ("two trainings in one folder", together),
    }
    title, act = tries[kind]
    return Case("kills", index, lambda here: title, lambda here: _kept(lambda: act(here / "run")), 60)


def _kept(work: Work) -> None:
    """A refusal is not right here: what was complete before must be usable after."""
    found = _quietly(work)
    if found is not None:
        raise FoundError(("silent", f"lost: {found[1]}", found[2]) if found[0] == "sentence" else found)


def interruption(random: Random, short: bool) -> tuple[str, Way]:
    """A way to be interrupted, and its name."""
    how = random.choice(("change", "change", "disk") if short else ("time", "change", "change", "disk"))
    if how == "time":
        seconds = random.uniform(0.1, 2.5)
        return f"killed after {seconds:.2f} s", lambda work: killed_after(work, seconds)
    if how == "disk":
        room = random.choice((0, 100, 1000, 3000, 10_000, 30_000))
        return f"files of at most {room} bytes", lambda work: without_room(work, room)
    count = random.randrange(12 if short else 90)
    return f"killed before change {count} of the file system", lambda work: killed_at(work, count)


def training(space: Workspace, place: Path, fresh: bool, way: Way) -> None:
    start = f"train {MARKOV} --out {place} --max-steps 6".split()
    again = f"train --resume {place} --max-steps 6".split()
    before, after = space.predictions["run"], space.predictions["whole"]
    if not fresh:
        shutil.copytree(space.folder / "run", place)
    way(lambda: command(*(start if fresh else again)))
    if not fresh:
        same("tl.load after the kill", predicted(place / "model") in (before, after), True)
    try:
        command(*again)
    except RefusalError:
        if not fresh or any((place / "checkpoints").glob("step_*")):
            raise
        command(*start)
    same("the resumed run", weights(place), space.end)
    same("the resumed run's model", predicted(place / "model"), after)
    there, expected = ({path.relative_to(run) for path in run.rglob("*")} for run in (place, space.folder / "whole"))
    if left := [path for path in there - expected if "lock" not in path.name]:
        raise WrongError(f"left over: {min(left)}")


def saving(space: Workspace, place: Path, way: Way) -> None:
    before, after = space.predictions["run"], space.predictions["whole"]
    shutil.copytree(space.folder / "run" / "model", place)
    new = tl.load(space.folder / "whole" / "model")
    way(lambda: new.save(place))
    same("tl.load after the kill", predicted(place) in (before, after), True)
    new.save(place)
    same("tl.load", predicted(place), after)
    if len(list(place.parent.iterdir())) > 1 or len(list(place.iterdir())) > 2:
        raise WrongError("something is left over beside the model")


def together(place: Path) -> None:
    """The second is refused while the first trains, and the first ends as if it had been alone."""
    first = FORK.Process(target=lambda: command(*f"train {MARKOV} --out {place} --max-steps 400".split()))
    first.start()
    try:
        while not (place / "checkpoints").exists() and first.is_alive():
            time.sleep(0.02)
        refused = _quietly(lambda: command(*f"train --resume {place} --max-steps 6".split()))
        if refused is None:
            raise WrongError("a second training was let into the folder of the first")
        if refused[0] != "sentence":
            raise FoundError(refused)
    finally:
        first.kill()


def killed_after(work: Work, seconds: float) -> None:
    """Killed by the clock."""
    _in_child(work, lambda: threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start())


def killed_at(work: Work, count: int) -> None:
    """Killed right before it changes the file system for the n-th time."""
    left = [count]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if (event == "open" or event in PATHS) and changed_paths(event, arguments):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    _in_child(work, lambda: sys.addaudithook(watch))


def without_room(work: Work, room: int) -> None:
    """No file may grow beyond `room` bytes; that ends in a sentence, as a full disk should."""
    found = _in_child(work, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY)))
    if found is not None and found[0] != "sentence":
        raise FoundError(found)


def _in_child(work: Work, before: Work) -> Verdict | None:
    """The verdict on the exception that ended work in a process of its own; None where there was none."""
    reader, writer = FORK.Pipe(duplex=False)

    def run() -> None:
        try:
            before()
            writer.send(_quietly(work))
        finally:
            os._exit(0)

    child = FORK.Process(target=run)
    child.start()
    writer.close()
    found: Verdict | None = None
    with suppress(EOFError):  # it was killed
        found = reader.recv()
    child.join()
    return found


def _quietly(work: Work) -> Verdict | None:
    """The verdict on what some work raises."""
    try:
        work()
    except BaseException as error:
        return verdict_of(error)
    return None
