"""The report of a checker, in sentences."""

from dataclasses import dataclass, field

from torch import Tensor

TOLERANCE = 1e-9
"""The largest error of a law that is computed in float64."""


@dataclass
class Report:
    """The laws that were checked; true where all of them hold, and printed one sentence per law."""

    what: str
    """The part that was checked, in words."""
    laws: list[tuple[str, str]] = field(default_factory=list)
    """Each law with what breaks it, empty where it holds."""

    def __bool__(self) -> bool:
        return not self.broken

    @property
    def broken(self) -> list[str]:
        """A sentence for each law that does not hold."""
        return [f"{law}: {why}" for law, why in self.laws if why]

    def __str__(self) -> str:
        lines = [f"  {'BROKEN' if why else 'holds '}  {law}{': ' + why if why else ''}" for law, why in self.laws]
        return "\n".join([f"{self.what}: {len(self.laws) - len(self.broken)} of {len(self.laws)} laws hold", *lines])

    def note(self, law: str, holds: bool, why: str = "it does not hold") -> None:
        """Add a law that holds or not; one that is there already is broken if it breaks once."""
        broken = {name: reason for name, reason in self.laws if reason}
        known = dict(self.laws) | {law: "" if holds else why} | broken
        self.laws[:] = known.items()

    def close(self, law: str, actual: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
        """Add a law that two tensors are equal."""
        if actual.shape != expected.shape:
            self.note(law, False, f"shape {list(actual.shape)} instead of {list(expected.shape)}")
            return
        worst = float((actual - expected).abs().nan_to_num(nan=float("inf")).max()) if actual.numel() else 0.0
        self.note(law, worst <= tolerance, f"off by {worst:.2g}, allowed is {tolerance:g}")
