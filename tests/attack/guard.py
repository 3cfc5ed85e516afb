"""Nothing outside the attack's own folder is written, renamed or removed, whatever a try asks for.

An attack may run as root, and the library's mistakes must not become the machine's: `--out` on a device once replaced
it.  The interpreter announces every such call before it happens (audit events), and those that lead outside are denied
as a file system would deny them.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Any

PATHS = {
    "os.rename": 2, "os.link": 2, "os.symlink": 2, "os.remove": 1, "os.rmdir": 1, "os.mkdir": 1, "os.truncate": 1,
    "os.chmod": 1, "os.chown": 1, "os.utime": 1, "os.setxattr": 1, "shutil.rmtree": 1, "shutil.move": 2,
}  # fmt: skip
"""Audit events that change the file system, and how many of their first arguments are paths."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def changed_paths(event: str, arguments: tuple[Any, ...]) -> list[str]:
    """The paths that an audit event is about to change."""
    if event == "open":
        writes = isinstance(arguments[2], int) and arguments[2] & WRITING
        return [os.fsdecode(arguments[0])] if writes and isinstance(arguments[0], str | bytes) else []
    return [os.fsdecode(it) for it in arguments[: PATHS.get(event, 0)] if isinstance(it, str | bytes | os.PathLike)]


def confine(root: Path) -> None:
    """From now on this process changes nothing outside `root`; there is no way back."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        for path in changed_paths(event, arguments) if event == "open" or event in PATHS else ():
            absolute = os.path.abspath(path)
            written = os.path.realpath(absolute if event == "open" else os.path.dirname(absolute))
            inside = Path(written).is_relative_to(root)
            if not inside and (event, written) != ("open", os.devnull):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    sys.addaudithook(watch)
