"""Starting points of a run: a recipe by name, or a model that is trained further, on other data.

Another package adds recipes through the entry-point group `tokenloom.recipes`.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenloom.data.base import Source, source_of
from tokenloom.data.digits import DigitsSource
from tokenloom.data.markov import MarkovSource
from tokenloom.data.text import TextSource
from tokenloom.models.bundled import without_process
from tokenloom.models.opening import is_foreign
from tokenloom.models.store import load_model, model_folder
from tokenloom.nn.transformer import TransformerOptions
from tokenloom.schedules import SCHEDULES
from tokenloom.support.addresses import is_address
from tokenloom.support.registry import Directory
from tokenloom.training.build import NAMES
from tokenloom.training.config import FITTED, OptimiserConfig, RunConfig, TrainConfig
from tokenloom.training.methods import method_text
from tokenloom.training.muon import FASTER

RECIPES: Directory[Callable[[], TrainConfig]] = Directory("recipe", "tokenloom.recipes", "tokenloom.training")

LENGTH = 128  # tokens per row of a model that reads any number
SMALL = OptimiserConfig(lr=1e-3, warmup=200, ema=0.999)


def recipe(name: str) -> TrainConfig:
    """Return a recipe by name."""
    return replace(RECIPES[name](), recipe=name)


@RECIPES.register("markov")
def markov() -> TrainConfig:
    """A Markov chain whose entropy is known, in three minutes."""
    return TrainConfig(max_minutes=3, optimiser=SMALL)


@RECIPES.register("text")
def text() -> TrainConfig:
    """Any text in subwords, with a vocabulary that suits its size and a network that suits the time and the machine."""
    base = chars()
    optimiser = replace(base.optimiser, kind="muon", lr=FASTER * base.optimiser.lr)
    return replace(base, method="mdm", data=TextSource(length=128, tokenizer="bpe"), optimiser=optimiser)


@RECIPES.register("chars")
def chars() -> TrainConfig:
    """The characters of any text, with a network that suits the time and the machine."""
    return TrainConfig(
        data=TextSource(length=128),
        network=TransformerOptions(width=128, depth=4, heads=4, condition=64),
        max_minutes=10,
        optimiser=OptimiserConfig(lr=2e-3, beta2=0.99, warmup=200, decay="linear", batch=16, ema=0.99),
        fit=FITTED,
    )


@RECIPES.register("digits")
def digits() -> TrainConfig:
    """Handwritten digits of 8 x 8 pixels."""
    return TrainConfig(max_minutes=10, data=DigitsSource(), optimiser=SMALL)


@RECIPES.register("owt")
def owt() -> TrainConfig:
    """The paper's network on OpenWebText."""
    return TrainConfig(
        data=TextSource(path="openwebtext", length=1024, tokenizer="gpt2", packing="sentences", given=0.0),
        max_steps=1_000_000,
        network=TransformerOptions(width=768, depth=12, heads=12, dropout=0.1),
        optimiser=OptimiserConfig(batch=512),
        run=RunConfig(validate_every=10_000, checkpoint_every=5_000, precision="bf16-mixed"),
    )


@RECIPES.register("lm1b")
def lm1b() -> TrainConfig:
    """The paper's network on LM1B."""
    data = TextSource(path="lm1b", tokenizer="bert-base-uncased", packing="sentences", detokeniser="lm1b", given=0.0)
    return replace(owt(), data=data)


def settings_from(source: str, adapters: bool = False) -> TrainConfig:
    """Return the settings of a run that trains a model further, with all that the model says of itself as defaults.

    Adapters begin at zero and take a higher learning rate than the weights themselves.
    """
    if is_foreign(source):
        raise ValueError(f"{source} is of another library; import it first: tokenloom import {source} --to FOLDER")
    model, folder = load_model(source), model_folder(source)
    place: Any = folder
    if folder is not None and is_address(source):  # which others can read too, not its copy
        place = without_process(source)[0].rstrip("/").removesuffix("/model") + "/model" * (folder.name == "model")
    schedule: Any = model.process.schedule
    trained_on: dict[str, Any] = model.about.source or {}
    if model.tokenizer is not None:  # text in its tokens, cut as it was trained; else what it was trained on
        length = min(trained_on.get("length", LENGTH), model.length or LENGTH)
        data: Source = TextSource(length=length, tokenizer=str(place), packing=trained_on.get("packing", "wrap"))
    else:
        data = source_of(trained_on) if trained_on else MarkovSource()
    names = [] if folder is None else [name for name in Path(place).parts[:-3:-1] if name != "model"]
    return TrainConfig(
        recipe=names[0] if names else "model",
        begin=source,
        method=method_text(model.process),
        predicts=NAMES[model.predicts],
        schedule=f"{schedule.name}:{','.join(SCHEDULES.options(schedule))}".removesuffix(":"),
        max_minutes=10,
        data=data,
        optimiser=OptimiserConfig(lr=1e-3 if adapters else 1e-4, warmup=100, batch=16, ema=0.999),
    )
