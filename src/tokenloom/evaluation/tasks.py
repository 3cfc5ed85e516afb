"""Tasks of `tokenloom evaluate --task` beside the likelihood; a package adds tasks through `tokenloom.tasks`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from tokenloom.support.registry import Registry


class EvaluationTask(ABC):
    """A dataclass of options that measures trained models on something of its own."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, runs: Sequence[str], out: str | None) -> None:
        """Measure the runs, print a table, and write the figures to a file."""


TASKS: Registry[EvaluationTask] = Registry("task", "tokenloom.tasks", "tokenloom.evaluation")
