"""Limits on what one visitor may ask of the machine, whatever the page allows."""

from dataclasses import asdict, dataclass

from tokenloom.support.checks import check_least


@dataclass(frozen=True)
class Limits:
    """Limits of one request, and of all of them together."""

    length: int = 2048
    """Longest sequence, in tokens."""
    steps: int = 1024
    """Most network evaluations of one sequence."""
    tries: int = 32
    """Most draws of one Sudoku that is to be solved."""
    body: int = 262_144
    """Largest request, in bytes."""
    seconds: int = 300
    """Longest time that one request may run."""
    waiting: int = 64
    """Requests that wait for their turn; the next one is refused."""
    workers: int = 2
    """Requests that run at the same time."""

    def __post_init__(self) -> None:
        check_least(self, **dict.fromkeys(asdict(self), 1))

    def longest(self, own: int | None) -> int:
        """Return the longest sequence of a model that has this length, or none of its own."""
        return min(self.length, own or self.length)


def check_within(name: str, value: int, limit: int, remedy: str, least: int = 1) -> None:
    """Raise unless a value is in least..limit."""
    if not least <= value <= limit:
        raise ValueError(f"{name} must be in {least}..{limit:,} here, got {value:,}; {remedy}")
