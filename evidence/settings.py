"""What the networks of a comparison have in common: data, size, batch, steps, optimiser and data order.

`full` is what the kept results were made with, about two minutes per run on one core; `tiny` runs every claim from end
to end in minutes and says nothing about it.
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
SETTINGS = ("markov", "text8", "sudoku")


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
    lr: float
    scored: int
    """Held-out sequences, or puzzles, that every network is measured on."""
    samples: int
    """Samples behind every point of a curve."""
    evaluations: tuple[int, ...]
    """Network evaluations of a sample."""


def setting(name: str, scale: Scale, text8: Path | None = None) -> Setting:
    """The setting of a name; `text8` is a folder with train*.txt and valid*.txt, needed where they are read."""
    if name == "markov":
        return _markov(scale)
    if name == "sudoku":
        return _sudoku(scale)
    if name != "text8":
        raise ValueError(f"there is no setting {name!r}; the settings are {', '.join(SETTINGS)}")
    return _text8(scale, text8 or Path("text8"))


def _markov(scale: Scale) -> Setting:
    if scale == "tiny":
        source = MarkovSource(vocab_size=4, length=6, rows=200, valid_rows=40)
        return Setting("markov", source, _transformer(16, 1), 3, 8, 2e-3, 16, 8, (4,))
    source, network = MarkovSource(vocab_size=12, length=24), _transformer(48, 2)
    return Setting("markov", source, network, 2500, 64, 2e-3, 2000, 512, (32,))


def _text8(scale: Scale, folder: Path) -> Setting:
    if scale == "tiny":
        return Setting(
            "text8", TextSource(path=str(folder), length=16, given=0.0), _transformer(16, 1), 3, 8, 2e-3, 8, 4, (4,)
        )
    source, network = TextSource(path=str(folder), length=128, given=0.0), _transformer(64, 3)
    return Setting("text8", source, network, 2000, 16, 2e-3, 512, 64, (64,))


def _sudoku(scale: Scale) -> Setting:
    if scale == "tiny":
        source, network = SudokuSource(side=4, rows=40, givens=(4, 10)), GridOptions(width=8, depth=1, loops=2)
        return Setting("sudoku", source, network, 3, 4, 3e-3, 4, 4, (8, 32))
    source = SudokuSource(rows=4000, seed=7, givens=(22, 50), puzzles="unique")
    network = GridOptions(width=24, depth=1, loops=8, condition=64)
    return Setting("sudoku", source, network, 1200, 16, 3e-3, 300, 300, (8, 32))


def _transformer(width: int, depth: int) -> TransformerOptions:
    return TransformerOptions(width=width, depth=depth, heads=4, condition=64)
