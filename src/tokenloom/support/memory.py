"""The memory of this machine: sizes beyond it are refused before anything is allocated."""

import os
from contextlib import suppress
from pathlib import Path

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files of a container's memory limit; without a limit they hold `max` or a huge number."""


def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container this process runs in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in LIMITS:
        with suppress(OSError, ValueError):
            total = min(total, int(Path(path).read_text()))
    return total


def check_memory(needed: int | float, what: str, remedy: str) -> None:
    """Raise if `needed` bytes are more than this machine has; `what` begins the sentence and `remedy` ends it."""
    available = machine_memory()
    if needed > available:
        raise ValueError(f"{what} needs about {_size(needed)}, and this machine has {_size(available)}; {remedy}")


def _size(count: int | float) -> str:
    return f"{count / 1e9:,.1f} GB" if count < 1e15 else f"{count / 1e9:.1e} GB"
