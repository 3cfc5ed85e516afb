"""What a measure is: its settings, which decide the figures, and the figures of a run."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from evidence.runs import Place, Run
from tokenloom.models.opening import Run as Opened
from tokenloom.models.opening import open_run


@dataclass(frozen=True)
class Measure(ABC):
    """A measurement by name; both methods give JSON."""

    name: str

    @abstractmethod
    def settings(self, run: Run, place: Place) -> dict[str, Any]:
        """What decides the figures beside the weights; a kept result with other settings is measured again."""

    @abstractmethod
    def of(self, run: Run, place: Place) -> dict[str, Any]:
        """The figures of a run."""


def opened(run: Run, place: Place) -> Opened:
    """The trained network of a run."""
    return open_run(place.run_folder(run))
