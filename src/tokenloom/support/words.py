"""Numbers in sentences."""


def counted(count: int, noun: str) -> str:
    """A count with its noun: 1 step, 2 steps, 12,000 steps."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
