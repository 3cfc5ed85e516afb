"""What a text of one's own comes to: the recipe `text` on several corpora, for several times and methods.

    bound     nats per character of held-out text, with the averaged weights (autoregressive networks: exact)
    counts    the same of counts of one to three tokens, in the same tokens (`evidence/measures/ngrams.py`)

A slice is the beginning of a text; its last 5% are held out.  What is finished is kept at once and not run again, and
what was interrupted is resumed.

python -m benchmarks.bench_text --corpora TinyStories stories/train.txt WikiText-2 wikitext2/train.txt.gz \
    --out benchmarks/results/text.json
"""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from evidence.measures.ngrams import ORDERS, Counts
from tokenloom.data.base import Dataset
from tokenloom.data.detokenise import Detokeniser
from tokenloom.data.text import TextSource
from tokenloom.support.files import write_json, write_text
from tokenloom.support.reading import read_json
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig
from tokenloom.training.loop import train
from tokenloom.training.recipes import recipe
from tokenloom.training.reporting import Reporter

Record = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A training: a slice of a text, the minutes and the method."""

    corpus: str
    path: Path
    detokeniser: Detokeniser
    minutes: float
    method: str

    @property
    def name(self) -> str:
        """As in TinyStories, 5 minutes, mdm."""
        return f"{self.corpus}, {self.minutes:g} minutes, {self.method}"

    def config(self, folder: Path) -> TrainConfig:
        """Return the run, as `tokenloom train --data.path` would do it."""
        base = recipe("text")
        assert isinstance(base.data, TextSource)
        data = replace(base.data, path=str(self.path), detokeniser=self.detokeniser)
        out = folder / f"{self.corpus}-{self.method}-{self.minutes:g}".replace(":", "-")
        return resolve(replace(base, method=self.method, max_minutes=self.minutes, data=data, out=str(out)))


def slice_of(text: Path, kilobytes: int, folder: Path) -> Path:
    """Write the first so many kilobytes of a text, whole lines."""
    with (gzip.open if text.suffix == ".gz" else open)(text, "rt", encoding="utf-8") as file:
        lines = file.readlines(1000 * kilobytes)
    return write_text(folder / f"{text.parent.name}-{text.name.partition('.')[0]}-{kilobytes}.txt", "".join(lines))


def counted(data: Dataset, rows: int) -> Record:
    """Nats per character of counts, by order, on as many held-out rows as networks are validated on."""
    held_out = data.valid[:rows]
    characters = (data.characters(held_out) or 0) / held_out.numel()
    nats = {order: Counts(data.train, data.vocab_size, order).nats(held_out).mean().item() for order in ORDERS}
    return {str(order): value / characters for order, value in nats.items()}


def measured(cell: Cell, folder: Path) -> Record:
    """Train, and return what was reached."""
    config = cell.config(folder)
    result = train(config, (config.folder / "checkpoints").is_dir(), Reporter())
    if result is None or result.stopped_by is not None:
        raise SystemExit(f"{cell.name} was not finished; the same command resumes it")
    data, per_token = config.data.load(), result.characters or 1.0
    found = {name: figure.per_token / per_token for name, figure in result.figures.items()}
    errors = {name: figure.per_token_error / per_token for name, figure in result.figures.items()}
    return {
        "vocabulary": data.vocab_size,
        "characters_per_token": per_token,
        "parameters": result.parameters,
        "steps": result.steps,
        "tokens": result.tokens,
        "nats_per_character": found,
        "errors": errors,
        "counts": counted(data, config.run.valid_rows),
    }


def cells(
    corpora: dict[str, Path], minutes: tuple[float, ...], methods: tuple[str, ...], kilobytes: int, folder: Path
) -> Iterator[Cell]:
    """Yield every training, the short ones first."""
    slices = {name: slice_of(path, kilobytes, folder) for name, path in corpora.items()}
    for time in sorted(minutes):
        for name, path in slices.items():
            detokeniser: Detokeniser = "wikitext" if "wikitext" in name.lower() else "none"
            yield from (Cell(name, path, detokeniser, time, method) for method in methods)


def main(
    corpora: dict[str, Path],
    minutes: tuple[float, ...] = (5, 30, 150),
    methods: tuple[str, ...] = ("mdm", "ar"),
    kilobytes: int = 500,
    folder: Path = Path("runs/text-bench"),
    out: Path = Path("text.json"),
) -> None:
    """Train the recipe text on slices of texts.

    Args:
        corpora: The texts, by the names that they have in the table.
        minutes: Times to train for.
        methods: Methods to train with, of `tokenloom train --method`.
        kilobytes: The size of every slice.
        folder: The runs, which are resumed if they were interrupted.
        out: The file of the results.
    """
    kept: Record = read_json(out) if out.exists() else {"kilobytes": kilobytes, "cells": []}
    done = {(each["corpus"], each["minutes"], each["method"]) for each in kept["cells"]}
    for cell in cells(corpora, minutes, methods, kilobytes, folder):
        where = (cell.corpus, cell.minutes, cell.method)
        if where in done:
            continue
        named = dict(zip(("corpus", "minutes", "method"), where, strict=True))
        kept["cells"].append(named | measured(cell, folder))
        write_json(out, kept)


if __name__ == "__main__":
    tyro.cli(main)
