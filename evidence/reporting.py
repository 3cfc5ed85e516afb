"""Reports of a run that nobody watches: no console, but metrics.jsonl, with groups of rows beside each validation."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.groups import group_means
from tokenloom.objectives.likelihood import Likelihood
from tokenloom.objectives.time_integral import group_size
from tokenloom.training.config import TrainConfig
from tokenloom.training.ending import Clock
from tokenloom.training.reporting import Reporter


class Logged(Reporter):
    """Writes metrics and prints nothing."""

    def __init__(self) -> None:
        super().__init__(quiet=True)

    @contextmanager
    def running(self, config: TrainConfig, start: int, clock: Clock) -> Iterator[None]:
        self._writers = self._open_writers(config, config.folder)
        with super().running(config, start, clock):
            yield

    def validated(
        self, step: int, figures: Mapping[str, Likelihood], entropy: float | None, characters: float | None = None
    ) -> None:
        super().validated(step, figures, entropy, characters)
        first = next(iter(figures.values()))
        length = first.tokens // first.sequences
        dependent = 1 if first.exact else group_size(first.sequences, first.time_samples)
        self._write({"step": step, "valid_groups": group_means(first.per_sequence / length, dependent)})


@dataclass(frozen=True)
class Validation:
    """The bound of the held-out rows at a step."""

    step: int
    per_token: float
    groups: tuple[float, ...]


def validations(folder: Path) -> list[Validation]:
    """The validations of a run in the order of their steps; of one that was repeated, the last."""
    merged: dict[int, dict[str, Any]] = {}
    for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "valid_nats" in record or "valid_groups" in record:
            merged[record["step"]] = merged.get(record["step"], {}) | record
    return [
        Validation(step, float(record["valid_nats"]), tuple(record["valid_groups"]))
        for step, record in sorted(merged.items())
    ]
