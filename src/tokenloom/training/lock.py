"""One training per run folder.  The system holds the lock, so it ends with its process, however that ends.

Each process of a run locks a file of its own, `.lock-<rank>`, and the first tries those of ranks the run does not
have.  So the workers that a killed torchrun leaves behind keep the folder locked until they end.
"""

import errno
import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from tokenloom.support.files import check_writable
from tokenloom.support.reading import read_json

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
    try:
        _sign(path)
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the release: afterwards it could be the lock of another process
        lock.release()


def _sign(path: Path) -> None:
    """Write who holds a lock into its file."""
    record = {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "started": datetime.now().isoformat(" ", "seconds"),
        "command": shlex.join(sys.argv),
    }
    with suppress(OSError):  # a lock holds on a full disk too
        path.write_text(json.dumps(record), encoding="utf-8")


def _refusal(path: Path) -> str:
    """Say who holds a lock, as far as its file tells."""
    who, stop = "another process", ""
    with suppress(ValueError, TypeError, KeyError):
        holder = read_json(path)
        place = "" if holder["host"] == socket.gethostname() else f" on {holder['host']}"
        who = f"process {holder['process']}{place} (started {holder['started']})"
        stop = f", stop it with `kill {holder['process']}`"
    return f"{path.parent} is being trained by {who}; wait for it{stop}, or choose another --out"
