"""Runs as entries of a table: what their own records say of the training, the seed apart."""

from collections.abc import Iterator
from typing import Any

from tokenloom.evaluation.tables import Entry
from tokenloom.models.opening import Run
from tokenloom.training.config import MAY_CHANGE, from_record


def entry_of(run: Run) -> Entry:
    """Return the entry of a run, without figures; one whose training is not known, or not understood, stands alone."""
    about, title, weights = run.model.about, run.model.process.name, run.weights
    predicts = "next token" if run.model.causal else run.model.predicts.__name__
    try:
        record = from_record(about.training).record()
    except ValueError:
        return Entry(run.name, (title, "-", predicts), {"name": run.name, "weights": weights}, None)
    config = {key: value for key, value in _flat(record) if key not in MAY_CHANGE | {"format", "run.seed"}}
    config |= {"process": title, "weights": weights, "max_minutes": record["max_minutes"]}
    if record["max_minutes"] is None:  # a run that ends by its time has a number of steps of its own
        config["steps"] = about.step
    method = "@".join([record["method"], *run.name.split("@")[1:]])
    return Entry(run.name, (method, str(record["objective"] or "-"), predicts), config, record["run"]["seed"])


def _flat(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
