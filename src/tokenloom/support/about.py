"""What is known of a model beside its weights: how far it was trained, on what, what it reached, where it came from."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tokenloom.support.registry import build


@dataclass(frozen=True)
class About:
    """A model's history, as JSON values; None where it is not known."""

    step: int | None = None
    """Optimiser steps."""
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
    """Where it came from, for a model that was imported."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Anything else that its file said."""

    def to_json(self) -> dict[str, Any]:
        """Everything, for a file; `extra` is laid out beside the known fields."""
        known: dict[str, Any] = asdict(self)
        return {**known.pop("extra"), **known}

    @classmethod
    def from_json(cls, record: Any) -> "About":
        """The inverse of `to_json`; unknown keys are kept in `extra`."""
        if not isinstance(record, dict):
            raise ValueError(f"what is known of a model is stored as an object, got {str(record)[:80]}")
        names = {item.name for item in fields(cls)} - {"extra"}
        known = {key: value for key, value in record.items() if key in names}
        extra = {key: value for key, value in record.items() if key not in names}
        return build(cls, known, "what is known of a model", extra=extra)
