"""Named starting points of a run; another package adds its own through the entry-point group `tokenloom.recipes`."""

from collections.abc import Callable
from dataclasses import replace

from tokenloom.data.digits import DigitsSource
from tokenloom.data.text import TextSource
from tokenloom.nn.transformer import TransformerOptions
from tokenloom.support.registry import Directory
from tokenloom.training.config import OptimiserConfig, RunConfig, TrainConfig
from tokenloom.training.ranges import FITTED

RECIPES: Directory[Callable[[], TrainConfig]] = Directory("recipe", "tokenloom.recipes", "tokenloom.training")

SMALL = OptimiserConfig(lr=1e-3, warmup=200, ema=0.999)


def recipe(name: str) -> TrainConfig:
    """Return a recipe by name."""
    return replace(RECIPES[name](), recipe=name)


@RECIPES.register("markov")
def markov() -> TrainConfig:
    """A Markov chain whose entropy is known, in three minutes."""
    return TrainConfig(max_minutes=3, optimiser=SMALL)


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
        data=TextSource(path="openwebtext", length=1024, tokenizer="gpt2", packing="sentences"),
        max_steps=1_000_000,
        network=TransformerOptions(width=768, depth=12, heads=12, dropout=0.1),
        optimiser=OptimiserConfig(batch=512),
        run=RunConfig(validate_every=10_000, checkpoint_every=5_000, precision="bf16-mixed"),
    )


@RECIPES.register("lm1b")
def lm1b() -> TrainConfig:
    """The paper's network on LM1B."""
    data = TextSource(path="lm1b", tokenizer="bert-base-uncased", packing="sentences", detokeniser="lm1b")
    return replace(owt(), data=data)
