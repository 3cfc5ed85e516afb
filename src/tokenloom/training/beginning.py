"""A run that begins with a model: its network and weights, its process and its tokenizer, on other data.

    tokenloom train --from FOLDER --data.path my_text.txt

Everything the model says of itself becomes a default: the method with its options, what the network predicts, the
schedule, the tokenizer and how text is cut into rows.  Another method may be named where the network allows it.
"""

from typing import Any

from tokenloom.data.base import Source, source_of
from tokenloom.data.markov import MarkovSource
from tokenloom.data.text import TextSource
from tokenloom.models.loading import is_foreign
from tokenloom.models.model import DiffusionModel
from tokenloom.models.store import load_model, model_folder
from tokenloom.schedules import SCHEDULES, Schedule
from tokenloom.training.build import NAMES
from tokenloom.training.config import OptimiserConfig, TrainConfig
from tokenloom.training.methods import method_text

LENGTH = 128
"""Tokens per row of a model that reads any number."""


def settings_from(source: str) -> TrainConfig:
    """The settings of a run that trains a model further."""
    if is_foreign(source):
        raise ValueError(
            f"{source} is not a model of tokenloom; import it first with `tokenloom import {source} --to FOLDER`, "
            "and train --from FOLDER"
        )
    model = load_model(source)
    process = model.process
    return TrainConfig(
        recipe=model_name(source),
        begin=source,
        method=method_text(process),
        predicts=NAMES[model.predicts],
        schedule=_text(process.schedule),
        max_minutes=10,
        data=_data(model, source),
        optimiser=OptimiserConfig(lr=1e-4, warmup=100, batch=16, ema=0.999),
    )


def model_name(source: str) -> str:
    """What a run that begins with a model is called."""
    folder = model_folder(source)
    parts = [] if folder is None else [part for part in (folder.name, folder.parent.name) if part != "model"]
    return parts[0] if parts else "model"


def _data(model: DiffusionModel, source: str) -> Source:
    """Text in the tokens of the model, cut as it was trained; else what it was trained on."""
    record: dict[str, Any] = model.about.source or {}
    if model.tokenizer is not None:
        length = min(record.get("length", LENGTH), model.length or LENGTH)
        return TextSource(length=length, tokenizer=str(model_folder(source)), packing=record.get("packing", "wrap"))
    return source_of(record) if record else MarkovSource()


def _text(schedule: Schedule) -> str:
    """A schedule as its registry parses it, with the options that are not at their defaults."""
    options = SCHEDULES.options(schedule)
    name: str = schedule.name  # type: ignore[attr-defined]
    return f"{name}:{','.join(options)}" if options else name
