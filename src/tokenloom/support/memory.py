"""The memory of this machine, and what would not fit into it: absurd sizes are refused before anything is allocated."""

import os
from contextlib import suppress
from pathlib import Path

LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where the kernel says what a container may use; a machine without a limit has `max` or a huge number there."""


def machine_memory() -> int:
    """Bytes of memory that this process may use at most: those of the machine, or of the container it runs in."""
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
    """Bytes, in GB."""
    return f"{count / 1e9:,.1f} GB" if count < 1e15 else f"{count / 1e9:.1e} GB"
