"""Numbers and names in sentences."""

import difflib
from collections.abc import Iterable


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 step, 2 steps, 12,000 steps."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint at the known names closest to a wrong one."""
    names = list(known)
    begun = [other for other in names if name and other.startswith(name)]  # a name that is not finished
    inside = [other for other in names if name and other.endswith(f"/{name}")]
    close = begun[:4] or inside[:4] or difflib.get_close_matches(name, names, n=2)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"known are {', '.join(names)}" if names else "it has none"
