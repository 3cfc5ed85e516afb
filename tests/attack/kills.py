"""Runs that end in the middle: killed at any instant, between any two changes of the file system, or on a full disk.

Afterwards `--resume` reaches the weights of a run that nothing interrupted, bit for bit; what was complete before is
still there; nothing is left over.  And two runs do not share a folder.
"""

import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import tokenloom as tl
from tests.attack.files import same
from tests.attack.guard import PATHS, changed_paths
from tests.attack.outcome import FoundError, RefusalError, WrongError, verdict_of
from tests.attack.worker import Case
from tests.attack.workspace import MARKOV, Workspace, command, predicted, weights

Work = Callable[[], Any]
Way = Callable[[Work], None]
"""Do some work in a process of its own, and let it end in the middle."""


def case(seed: int, index: int, space: Workspace) -> Case:
    """The try of this number."""
    random = Random(f"kills {seed} {index}")
    kind = random.choices(("training", "saving", "together"), (12, 6, 1))[0]
    title, way = interruption(random, kind == "saving")
    fresh = random.random() < 0.5
    tries: dict[str, tuple[str, Callable[[Path], None]]] = {
        "training": (f"train{'' if fresh else ' --resume'}, {title}", lambda here: training(space, here, fresh, way)),
        "saving": (f"model.save, {title}", lambda here: saving(space, here, way)),
        "together": ("two trainings in one folder", together),
    }
    words, act = tries[kind]
    return Case("kills", index, lambda here: words, lambda here: _kept(lambda: act(here / "run")), 60)


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
    start = ["train", *MARKOV, "--out", str(place), "--max-steps", "6"]
    again = ["train", "--resume", str(place), "--max-steps", "6"]
    if not fresh:
        shutil.copytree(space.folder / "run", place)
    way(lambda: command(*(start if fresh else again)))
    if not fresh:
        same("tl.load after the kill", predicted(place / "model") in (space.predictions["run"], space.whole), True)
    try:
        command(*again)
    except RefusalError:
        if not fresh or any((place / "checkpoints").glob("step_*")):
            raise
        command(*start)
    same("the resumed run", weights(place), space.end)
    same("the resumed run's model", predicted(place / "model"), space.whole)
    left = names(place) - names(space.folder / "whole")
    if left:
        raise WrongError(f"left over: {min(left)}")


def names(place: Path) -> set[str]:
    """Everything in a folder."""
    return {str(path.relative_to(place)) for path in place.rglob("*") if "lock" not in path.name}


def saving(space: Workspace, place: Path, way: Way) -> None:
    shutil.copytree(space.folder / "run" / "model", place)
    new = tl.load(space.folder / "whole" / "model")
    way(lambda: new.save(place))
    same("tl.load after the kill", predicted(place) in (space.predictions["run"], space.whole), True)
    new.save(place)
    same("tl.load", predicted(place), space.whole)
    if len(list(place.parent.iterdir())) > 1 or len(list(place.iterdir())) > 2:
        raise WrongError("something is left over beside the model")


def together(place: Path) -> None:
    """The second is refused while the first trains, and the first ends as if it had been alone."""
    first = os.fork()
    if first == 0:
        os._exit(_quietly(lambda: command("train", *MARKOV, "--out", str(place), "--max-steps", "400")) is None)
    try:
        while not (place / "checkpoints").exists() and os.waitpid(first, os.WNOHANG)[0] == 0:
            time.sleep(0.02)
        refused = _quietly(lambda: command("train", "--resume", str(place), "--max-steps", "6"))
        if refused is None:
            raise WrongError("a second training was let into the folder of the first")
        if refused[0] != "sentence":
            raise FoundError(refused)
    finally:
        os.kill(first, signal.SIGKILL)


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


def _in_child(work: Work, before: Work) -> tuple[str, str, str] | None:
    """The verdict on the exception that ended work in a process of its own; None where there was none."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            os.write(writer, json.dumps(_quietly(work)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    found = json.loads(content or "null")
    return None if found is None else (found[0], found[1], found[2])


def _quietly(work: Work) -> tuple[str, str, str] | None:
    try:
        work()
    except BaseException as error:
        return verdict_of(error)
    return None
