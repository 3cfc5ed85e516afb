"""What the networks of a comparison have in common: data, size, batch, steps, optimiser and data order.

`full` is what the kept results were made with, one to ten minutes per run on one core; `tiny` runs every claim from end
to end in minutes and says nothing about it.  On `chain` and `stories` every arm has the better of two learning rates,
which a pilot chose (`pilot.py`), and is validated four times on its way; on the others all arms have one rate.  `long`
is the same chain in sequences as long as a text, `softmax` a law without a network.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tokenloom.data.base import Source
from tokenloom.data.markov import MarkovSource
from tokenloom.data.text import TextSource
from tokenloom.nn.transformer import TransformerOptions
from tokenloom.sudoku.data import SudokuSource
from tokenloom.sudoku.network import GridOptions

Scale = Literal["full", "tiny"]
SETTINGS = ("chain", "stories", "long", "sudoku")
SEEDS: dict[str, tuple[int, ...]] = {
    "chain": (1, 2, 3, 4, 5, 6, 7, 8),
    "stories": (1, 2, 3, 4, 5),
    "long": (1, 2, 3, 4, 5),
    "sudoku": (1, 2, 3, 4, 5),
    "softmax": (1, 2, 3, 4, 5, 6, 7, 8),
}
"""The seeds of every run on a setting."""
MOST = max(SEEDS.values(), key=len)
"""All seeds that there are."""


@dataclass(frozen=True)
class Setting:
    """A data set with the budget of every run on it."""

    name: str
    source: Source
    network: TransformerOptions
    steps: int
    """Optimiser steps of every run."""
    batch: int
    """Sequences of every step."""
    rates: tuple[float, ...]
    """The learning rate, or those that a pilot chooses from."""
    scored: int
    """Held-out sequences, or puzzles, that every network is measured on."""
    samples: int
    """Samples behind every point of a curve."""
    validated: int | None = None
    """Held-out sequences of the four validations on the way; None without these."""
    fresh: int = 20_000
    """Fresh rows for the floor of the exact model, where there is one."""


def setting(name: str, scale: Scale, stories: Path | None = None) -> Setting:
    """The setting of a name; the folder of TinyStories is needed where its text is read."""
    tiny = scale == "tiny"
    match name:
        case "chain":
            return _chain(tiny)
        case "stories":
            return _stories(tiny, stories or Path("stories"))
        case "long":
            return _long(tiny)
        case "sudoku":
            return _sudoku(tiny)
    raise ValueError(f"there is no setting {name!r}; the settings are {', '.join(SETTINGS)}")


def _chain(tiny: bool) -> Setting:
    rates = (2e-3, 4e-3)
    if tiny:
        source = MarkovSource(vocab_size=4, length=6, rows=200, valid_rows=40)
        return Setting("chain", source, _transformer(16, 1), 4, 8, rates, 16, 8, 8, 16)
    source, network = MarkovSource(vocab_size=12, length=24), _transformer(48, 2)
    return Setting("chain", source, network, 2500, 64, rates, 2000, 512, 512)


def _stories(tiny: bool, folder: Path) -> Setting:
    rates = (2e-3, 4e-3)
    if tiny:
        source = TextSource(path=str(folder), length=16, tokenizer="bpe:280", given=0.0)
        return Setting("stories", source, _transformer(16, 1), 4, 8, rates, 8, 4, 8)
    source = TextSource(path=str(folder), length=64, tokenizer="bpe:2048", given=0.0)
    return Setting("stories", source, _transformer(64, 3), 4000, 32, rates, 2000, 64, 512)


def _long(tiny: bool) -> Setting:
    if tiny:
        source = MarkovSource(vocab_size=4, length=16, rows=100, valid_rows=20)
        return Setting("long", source, _transformer(16, 1), 3, 4, (2e-3,), 16, 4)
    source = MarkovSource(vocab_size=12, length=256, rows=20_000, valid_rows=500)
    return Setting("long", source, _transformer(48, 2), 2500, 16, (2e-3,), 500, 64)


def _sudoku(tiny: bool) -> Setting:
    if tiny:
        source, network = SudokuSource(side=4, rows=40, givens=(4, 10)), GridOptions(width=8, depth=1, loops=2)
        return Setting("sudoku", source, network, 3, 4, (3e-3,), 4, 4)
    source = SudokuSource(rows=21_053, seed=7, givens=(22, 50), puzzles="unique")  # of which 20,000 are trained on
    network = GridOptions(width=24, depth=1, loops=8, condition=64, time=True)
    return Setting("sudoku", source, network, 2400, 16, (3e-3,), 500, 500)


def _transformer(width: int, depth: int) -> TransformerOptions:
    return TransformerOptions(width=width, depth=depth, heads=4, condition=64, time=True)
