"""The history of a model: how far it was trained, on what data, what it reached, where it came from."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tokenloom.support.registry import build


@dataclass(frozen=True)
class About:
    """A model's history, as JSON values; None for what is not known."""

    step: int | None = None
    """The number of optimiser steps."""
    data: str | None = None
    """The name of the data it was trained on."""
    source: dict[str, Any] | None = None
    """The data source, as its registry records it, so that the data can be loaded again."""
    fingerprint: str | None = None
    """A checksum of the training data."""
    validation: dict[str, Any] | None = None
    """The likelihood it reached on held-out data."""
    entropy: float | None = None
    """The exact entropy of the data in nats per token, where it is known."""
    training: dict[str, Any] | None = None
    """The config of the run that trained it."""
    origin: dict[str, Any] | None = None
    """The place that an imported model came from."""
    grids: dict[str, Any] | None = None
    """Grids that were fitted to it, by process and number of steps (`samplers/grids.py`)."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Anything else that its file said."""

    def to_json(self) -> dict[str, Any]:
        """Return all of it, for a file; the items of `extra` stand beside the known fields."""
        known: dict[str, Any] = asdict(self)
        return {**known.pop("extra"), **known}

    @classmethod
    def from_json(cls, record: Any) -> "About":
        """Restore what `to_json` returned; unknown keys are kept in `extra`."""
        if not isinstance(record, dict):
            raise ValueError(f"what is known of a model is stored as an object, got {str(record)[:80]}")
        known = {item.name: record[item.name] for item in fields(cls) if item.name in record and item.name != "extra"}
        extra = {key: value for key, value in record.items() if key not in known}
        return build(cls, known, "what is known of a model", extra=extra)
