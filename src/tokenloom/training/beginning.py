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
from tokenloom.schedules import SCHEDULES
from tokenloom.training.build import NAMES
from tokenloom.training.config import OptimiserConfig, TrainConfig
from tokenloom.training.methods import method_text

LENGTH = 128
"""Tokens per row of a model that reads any number."""


def settings_from(source: str) -> TrainConfig:
    """Return the settings of a run that trains a model further."""
    if is_foreign(source):
        raise ValueError(
            f"{source} is not a model of tokenloom; import it first with `tokenloom import {source} --to FOLDER`, "
            "and train --from FOLDER"
        )
    model, folder = load_model(source), model_folder(source)
    schedule: Any = model.process.schedule
    names = [] if folder is None else [name for name in (folder.name, folder.parent.name) if name != "model"]
    return TrainConfig(
        recipe=names[0] if names else "model",
        begin=source,
        method=method_text(model.process),
        predicts=NAMES[model.predicts],
        schedule=f"{schedule.name}:{','.join(SCHEDULES.options(schedule))}".removesuffix(":"),
        max_minutes=10,
        data=_data(model, str(folder)),
        optimiser=OptimiserConfig(lr=1e-4, warmup=100, batch=16, ema=0.999),
    )


def _data(model: DiffusionModel, folder: str) -> Source:
    """Return text in the tokens of the model, cut as it was trained; else what it was trained on."""
    record: dict[str, Any] = model.about.source or {}
    if model.tokenizer is not None:
        length = min(record.get("length", LENGTH), model.length or LENGTH)
        return TextSource(length=length, tokenizer=folder, packing=record.get("packing", "wrap"))
    return source_of(record) if record else MarkovSource()
