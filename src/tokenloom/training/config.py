"""Everything a run is made of, as nested frozen dataclasses, and the named recipes that fill them in.

A config written as JSON and read back is the same config; a key that does not exist is an error with the nearest names.
"""

import json
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from tokenloom.checks import nearest
from tokenloom.data.detokenise import Detokeniser

Method = Literal["mdm", "udm", "max-coupling", "audm", "ar"]
Predicts = Literal["loo", "denoiser", "score"]
ObjectiveName = Literal["ce", "nelbo", "finite-step", "hybrid", "crm", "score-entropy", "next-token"]


@dataclass(frozen=True)
class DataConfig:
    """What to train on."""

    kind: Literal["sudoku", "markov", "text", "digits"] = "markov"
    path: str | None = None
    """A file or folder: text, a Sudoku CSV, or MNIST's idx files; a Hub name for text."""
    valid_path: str | None = None
    """Validation text; without it a part of `path` is held out."""
    length: int = 32
    """Tokens a sequence (text and markov)."""
    tokenizer: str = "characters"
    """characters, bytes, bpe:N, a tokenizer.json, a folder with a vocabulary, or a Hub name."""
    packing: Literal["wrap", "sentences", "pad"] = "wrap"
    """How text becomes rows of fixed length."""
    detokeniser: Detokeniser = "none"
    """Undo the tokenisation in which an evaluation set is distributed, such as ` , ` and ` @-@ ` in wikitext."""
    side: int = 9
    """Side of a Sudoku: 4, 6 or 9."""
    givens: tuple[int, int] = (24, 50)
    """Fewest and most given cells of a Sudoku."""
    puzzles: Literal["random", "unique"] = "random"
    """Given cells at random, or mostly such that the solution is unique (found at some 20 rows a second for side 9)."""
    vocab_size: int = 16
    """Tokens of the markov chain."""
    rows: int = 50_000
    """Rows to generate (markov, sudoku)."""
    seed: int = 0
    """Seed of generated data and of splits."""


@dataclass(frozen=True)
class NetworkConfig:
    """How large the network is."""

    kind: Literal["dit", "hollow", "causal", "grid"] = "dit"
    """grid has a vector for every digit of every cell and knows the rules' symmetries; width is that vector's size."""
    width: int = 128
    depth: int = 4
    heads: int = 4
    loops: int = 1
    """How many times the blocks are applied, with the same weights (dit and grid)."""
    condition: int = 128
    """Size of the time embedding."""
    dropout: float = 0.0
    time: bool = True
    """Condition on the time."""
    relations: bool = False
    """Learn an attention bias for the rows, columns and boxes of a grid, and do without positions."""


@dataclass(frozen=True)
class OptimiserConfig:
    """Adam as in the paper, with an exponential moving average of the weights."""

    lr: float = 3e-4
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    clip: float = 1.0
    """Largest norm of the gradient."""
    warmup: int = 2500
    """Steps over which the learning rate rises."""
    decay: Literal["constant", "linear"] = "constant"
    """What follows: constant, or a linear fall to 0 at the end of the run."""
    batch: int = 64
    """Sequences a step, over all processes."""
    accumulate: int = 1
    """Pieces a process cuts its part of the batch into."""
    ema: float = 0.9999


@dataclass(frozen=True)
class RunConfig:
    """What to write and on what to run."""

    validate_every: int = 1000
    checkpoint_every: int = 1000
    valid_rows: int = 512
    """Validation sequences; the standard error says whether they are enough."""
    seed: int = 1
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    strategy: Literal["ddp", "fsdp"] = "ddp"
    """What each of several processes (torchrun) holds: the whole model (ddp), or a part of every parameter (fsdp)."""
    tensorboard: bool = False
    """Write TensorBoard events beside metrics.jsonl."""
    wandb: str | None = None
    """A Weights & Biases project to log to."""


@dataclass(frozen=True)
class TrainConfig:
    """A whole run."""

    recipe: str = "markov"
    """A named starting point: sudoku4, sudoku6, sudoku9, markov, chars, lm1b, owt or digits."""
    method: Method = "udm"
    predicts: Predicts | None = None
    """What the network predicts; by default the leave-one-out posterior for udm and max-coupling, else the denoiser."""
    objective: ObjectiveName | None = None
    """What is minimised; by default ce for udm, next-token for ar, else the bound."""
    schedule: Literal["linear", "cosine", "polynomial", "geometric"] = "linear"
    floor: float = 1e-3
    """Smallest training time."""
    out: str | None = None
    """Run folder; by default runs/<recipe>-<method>-<predicts>-<objective>."""
    max_steps: int | None = None
    """Stop after this many steps."""
    max_minutes: float | None = None
    """Stop after this many minutes."""
    data: DataConfig = field(default_factory=DataConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    run: RunConfig = field(default_factory=RunConfig)


def _grid(side: int, givens: tuple[int, int], width: int, depth: int, heads: int, rows: int) -> TrainConfig:
    return TrainConfig(
        f"sudoku{side}",
        data=DataConfig("sudoku", side=side, givens=givens, rows=rows),
        network=NetworkConfig(width=width, depth=depth, heads=heads, condition=64, relations=True),
        optimiser=OptimiserConfig(lr=1e-3, warmup=100, decay="linear", ema=0.999),
        max_minutes=20,
        run=RunConfig(valid_rows=256),
    )


_SMALL = OptimiserConfig(lr=1e-3, warmup=200, ema=0.999)
_PAPER = OptimiserConfig(batch=512)
_LARGE = NetworkConfig(width=768, depth=12, heads=12, dropout=0.1)
_LONG = RunConfig(validate_every=10_000, checkpoint_every=5_000, precision="bf16-mixed")

RECIPES: dict[str, TrainConfig] = {
    "sudoku4": _grid(4, (4, 12), 64, 3, 4, 288),
    "sudoku6": _grid(6, (10, 26), 96, 4, 6, 20_000),
    "sudoku9": _grid(9, (24, 50), 96, 5, 6, 50_000),
    "markov": TrainConfig("markov", max_minutes=3, optimiser=_SMALL),
    "chars": TrainConfig(
        "chars",
        data=DataConfig("text", length=256),
        network=NetworkConfig(width=256, depth=6, heads=8),
        max_minutes=60,
        optimiser=_SMALL,
    ),
    "digits": TrainConfig("digits", max_minutes=10, data=DataConfig("digits"), optimiser=_SMALL),
    "lm1b": TrainConfig(
        "lm1b",
        data=DataConfig(
            "text", "lm1b", length=128, tokenizer="bert-base-uncased", packing="sentences", detokeniser="lm1b"
        ),
        max_steps=1_000_000,
        network=_LARGE,
        optimiser=_PAPER,
        run=_LONG,
    ),
    "owt": TrainConfig(
        "owt",
        data=DataConfig("text", "openwebtext", length=1024, tokenizer="gpt2", packing="sentences"),
        max_steps=1_000_000,
        network=_LARGE,
        optimiser=_PAPER,
        run=_LONG,
    ),
}


def recipe(name: str) -> TrainConfig:
    """A recipe by name."""
    if name not in RECIPES:
        raise ValueError(f"there is no recipe {name!r}; {nearest(name, RECIPES)}")
    return RECIPES[name]


Config = TypeVar("Config")


def from_dict(default: Config, values: dict[str, Any], where: str = "") -> Config:
    """A config with some values replaced; lists become tuples."""
    assert is_dataclass(default)
    names = [item.name for item in fields(default)]
    changed: dict[str, Any] = {}
    for key, value in values.items():
        if key not in names:
            raise ValueError(f"the config has no key {where}{key}; {nearest(key, names)}")
        current = getattr(default, key)
        if is_dataclass(current):
            changed[key] = from_dict(current, value, f"{where}{key}.")
        else:
            changed[key] = tuple(value) if isinstance(value, list) else value
    return replace(default, **changed)  # type: ignore[type-var]


def read_config(path: Path) -> TrainConfig:
    """The config of a JSON file."""
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no readable config: {error}") from error
    return from_dict(TrainConfig(), values)


def differences(first: Any, second: Any, where: str = "") -> list[str]:
    """The keys at which two configs differ, with both values."""
    found: list[str] = []
    for item in fields(first):
        before, after = getattr(first, item.name), getattr(second, item.name)
        if is_dataclass(before):
            found += differences(before, after, f"{where}{item.name}.")
        elif before != after:
            found.append(f"{where}{item.name} ({before} -> {after})")
    return found
