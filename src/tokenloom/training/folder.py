"""The folder of a run: one training at a time in it, free for a new one, and the state that an old one resumes from.

The system holds its lock, so it ends with its process, however that ends.  Each process of a run locks a file of its
own, `.lock-<rank>`, and the first tries those of ranks the run does not have.  So the workers that a killed torchrun
leaves behind keep the folder locked until they end.
"""

import errno
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from tokenloom.models.adapter import Adapter
from tokenloom.models.checkpoint import Checkpoint, checkpoints, newest_intact
from tokenloom.support.addresses import exclusive, fetched, is_address, listing, workplace
from tokenloom.support.checks import check_least
from tokenloom.support.files import check_ours, check_parts, check_writable, discard, replacing
from tokenloom.support.reading import read_json
from tokenloom.support.registry import build
from tokenloom.support.uploads import mark_uploaded
from tokenloom.training.config import TrainConfig, check_same, from_record, read_config
from tokenloom.training.reporting import Reporter

PARTS = ("config.json", "metrics.jsonl", "checkpoints", "best", "model", "evaluation", "events.out.*", "wandb", ".*")
"""Patterns of what a run leaves in its folder."""
PREFIX = ".lock-"
SECONDS = 0.2
"""The time of a second attempt, for a file whose last holder removes it between our opening and locking it."""
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of a disk without locks: trainings in one folder are then the user's own care."""


@contextmanager
def locked(folder: Path, rank: int = 0, processes: int = 1) -> Iterator[None]:
    """Hold this rank's lock of a folder in which no rank from `processes` on is at work."""
    check_writable(folder)
    with _held(folder / f"{PREFIX}{rank}"):
        for other in sorted(folder.glob(f"{PREFIX}*")) if rank == 0 else ():
            number = other.name.removeprefix(PREFIX)
            if number.isdecimal() and int(number) >= processes:
                with _held(other):
                    pass
        yield


@contextmanager
def _held(path: Path) -> Iterator[None]:
    lock = FileLock(path, SECONDS, fallback_to_soft=False)  # a soft lock would outlive a killed process
    try:
        lock.acquire()
    except Timeout as error:
        raise ValueError(_refusal(path)) from error
    except OSError as error:
        if error.errno not in NO_LOCKS:
            reason = error.strerror or error
            raise ValueError(f"cannot lock {path.parent}: {path.name}: {reason}; choose another --out") from error
    holder = {"process": os.getpid(), "host": socket.gethostname(), "started": datetime.now().isoformat(" ", "seconds")}
    try:
        with suppress(OSError):  # a lock holds on a full disk too
            path.write_text(json.dumps(holder), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the release: afterwards it could be the lock of another process
        lock.release()


def _refusal(path: Path) -> str:
    """Say who holds a lock, as far as its file tells."""
    who, stop = "another process", ""
    with suppress(ValueError, TypeError, KeyError):
        holder = read_json(path)
        place = "" if holder["host"] == socket.gethostname() else f" on {holder['host']}"
        who = f"process {holder['process']}{place} (started {holder['started']})"
        stop = f", stop it with `kill {holder['process']}`"
    return f"{path.parent} is being trained by {who}; wait for it{stop}, or choose another --out"


@dataclass(frozen=True)
class State:
    """The contents of state.json beside the step."""

    best: float | None  # the best validation figure so far; None before the first, as JSON has no infinity
    averaged: int  # steps in the average of the weights
    rows_seen: int
    minutes: float
    done: bool  # the run came to its end, with its model written
    config: dict[str, Any]
    base: str | None = None  # the checksum of the weights that adapters are added to


def check_free(out: str) -> None:
    """Raise unless a new run may begin: there is no checkpoint and nothing that is not of a run."""
    folder, remedy = workplace(out), "choose another --out"
    there = listing(out) if is_address(out) else ()
    names = {path.split("/")[0] for path in there}
    if "checkpoints" in names or checkpoints(folder / "checkpoints"):
        place = out if names else folder
        raise ValueError(f"{place} already holds a run: continue it with --resume {out}, or {remedy}")
    check_parts(names, out, PARTS, "a run", remedy)
    check_ours(folder, PARTS, "a run", remedy)
    if "config.json" in names or (folder / "config.json").exists():
        try:
            run_config(out)
        except ValueError as error:
            raise ValueError(f"{error}; a new run would replace it, so {remedy}") from error


def run_config(run: str) -> TrainConfig:
    """Read the config of a run to resume."""
    path = workplace(run) / "config.json"
    if is_address(run) and listing(f"{run.rstrip('/')}/config.json"):
        path = fetched(f"{run.rstrip('/')}/config.json")
    if not path.is_file():
        raise ValueError(f"{run} is not a run to resume: it holds no config.json")
    return replace(read_config(path), out=run)


def catch_up(folder: Path, address: str) -> None:
    """Fetch the run at an address into its folder, unless that has a checkpoint as new: an upload may have failed."""
    with exclusive(folder.parent):  # one rank does it for all on this machine
        names = [path.split("/")[1] for path in listing(address) if fnmatchcase(path, "checkpoints/*/manifest.json")]
        own = checkpoints(folder / "checkpoints")
        if not names or (own and own[0].name >= max(names)):
            return
        copy = fetched(address)
        for part in sorted(copy.iterdir(), key=lambda part: part.name == "checkpoints"):  # they tell that all is there
            with replacing(folder / part.name) as partial:
                shutil.copytree(part, partial) if part.is_dir() else shutil.copy2(part, partial)
        mark_uploaded(folder)
        discard(copy.parent)


def find_checkpoint(folder: Path, config: TrainConfig, adapter: Adapter | None, reporter: Reporter) -> Checkpoint:
    """Read the newest intact checkpoint of a run, of the same config and of adapters to the same weights.

    Damaged ones are named and passed over.
    """
    saved, damaged = newest_intact(folder / "checkpoints")
    for sentence in damaged:
        reporter.say(sentence)
    if saved is None:
        raise ValueError(f"{folder} holds no intact checkpoint to resume from")
    state = build(State, saved.state, f"the state of step {saved.step}")
    check_least(state, averaged=0, rows_seen=0, minutes=0)
    check_same(from_record(state.config), config)
    if state.base != (None if adapter is None else adapter.sha256):
        raise ValueError(
            f"{config.begin} is not the model that the adapters in {folder} were trained on (sha256 "
            f"{str(state.base)[:12]}); put that one back in its place"
        )
    reporter.say(f"resuming from step {saved.step}")
    return saved
