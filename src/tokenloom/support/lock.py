"""One training per run folder.  The kernel holds the lock, so it ends with its process, however that ends.

Each process of a run locks a file of its own, `.lock-<rank>`, and the first looks at those of ranks the run does not
have.  So the workers that a killed torchrun leaves behind keep the folder locked until they end.
"""

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from tokenloom.support.files import check_writable
from tokenloom.support.reading import parse_json

try:
    import fcntl
except ImportError:  # Windows has no such locks: trainings in one folder are then the user's own care
    fcntl = None  # type: ignore[assignment]

PREFIX = ".lock-"
SIGNATURE = 100_000
"""Characters of a lock file that are read."""


@contextmanager
def locked(folder: Path, rank: int = 0, processes: int = 1) -> Iterator[None]:
    """Inside, this process is the only one with its rank in the folder, and no rank beyond `processes` is held."""
    mine = folder / f"{PREFIX}{rank}"
    check_writable(folder)
    file = _take(mine)
    try:
        if file is not None:
            for other in _beyond(folder, processes) if rank == 0 else ():
                _release(_take(other), other)
            _sign(file)
        yield
    finally:
        _release(file, mine)


def _beyond(folder: Path, processes: int) -> list[Path]:
    """The locks of ranks that this run does not have."""
    numbers = [(path.name.removeprefix(PREFIX), path) for path in folder.glob(f"{PREFIX}*")]
    return [path for number, path in numbers if number.isdecimal() and int(number) >= processes]


def _take(path: Path) -> TextIOWrapper | None:
    """Lock a file; None where the system or the disk has no locks."""
    if fcntl is None:
        return None
    while True:
        try:
            file = path.open("a+", encoding="utf-8")
        except OSError as error:
            raise ValueError(
                f"cannot lock {path.parent}: {path.name}: {error.strerror or error}; choose another --out"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            sentence = _refusal(path.parent, file)
            file.close()
            raise ValueError(sentence) from error
        except OSError:
            file.close()
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # its last holder removed the file before it let go of it


def _sign(file: TextIOWrapper) -> None:
    """Say who holds the lock."""
    record = {
        "process": os.getpid(),
        "host": socket.gethostname(),
        "started": datetime.now().isoformat(" ", "seconds"),
        "command": shlex.join(sys.argv),
    }
    with suppress(OSError):  # the lock holds on a full disk too
        file.truncate(0)
        file.write(json.dumps(record))
        file.flush()


def _release(file: TextIOWrapper | None, path: Path) -> None:
    if file is not None:
        with suppress(OSError):
            path.unlink()
        with suppress(OSError):
            file.close()


def _refusal(folder: Path, file: TextIOWrapper) -> str:
    holder: Any = None
    with suppress(OSError, ValueError):
        file.seek(0)
        holder = parse_json(file.read(SIGNATURE))
    if not isinstance(holder, dict) or "process" not in holder:
        return f"{folder} is being trained by another process; wait for it, or choose another --out"
    number, host = holder["process"], holder.get("host")
    place = "" if host == socket.gethostname() else f" on {host}"
    return (
        f"{folder} is being trained by process {number}{place} (started {holder.get('started')}); "
        f"wait for it, stop it with `kill {number}`, or choose another --out"
    )
