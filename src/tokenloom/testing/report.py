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
    laws: dict[str, str] = field(default_factory=dict)
    """Each law with what breaks it, empty where it holds."""

    def __bool__(self) -> bool:
        return not self.broken

    @property
    def broken(self) -> list[str]:
        """A sentence for each law that does not hold."""
        return [f"{law}: {why}" for law, why in self.laws.items() if why]

    def __str__(self) -> str:
        lines = [f"  BROKEN  {law}: {why}" if why else f"  holds   {law}" for law, why in self.laws.items()]
        return "\n".join([f"{self.what}: {len(self.laws) - len(self.broken)} of {len(self.laws)} laws hold", *lines])

    def note(self, law: str, holds: bool, why: str = "it does not hold") -> None:
        """Record whether a law holds; one that is recorded several times is broken if it breaks once."""
        self.laws[law] = self.laws.get(law) or ("" if holds else why)

    def close(self, law: str, actual: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> None:
        """Record whether two tensors are equal, up to a tolerance."""
        if actual.shape != expected.shape:
            self.note(law, False, f"shape {list(actual.shape)} instead of {list(expected.shape)}")
            return
        worst = float((actual - expected).abs().nan_to_num(nan=float("inf")).max()) if actual.numel() else 0.0
        self.note(law, worst <= tolerance, f"off by {worst:.2g}, allowed is {tolerance:g}")
