"""A collection of mined puzzles: blocks that depend on the seed and their number alone, each kept when it is made.

    python -m tokenloom.sudoku.collection --out mined.csv.gz --blocks 200 --seed 11

A block walks on `WALKS` grids of its own for a number of questions; even blocks look for few givens, odd ones for many
guesses.  An interrupted run repeats at most one block; more blocks add to the collection and change nothing before.
"""

import csv
import gzip
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from jaxtyping import Int
from torch import Tensor

from tokenloom.data.token_cache import cached_rows, digest
from tokenloom.drawing.randomness import derive_seed
from tokenloom.models.tokenizer import Ids
from tokenloom.sudoku.data import random_grids
from tokenloom.sudoku.mining import FEW, MANY, Aim, mine
from tokenloom.sudoku.solver import BLANK
from tokenloom.sudoku.text import format_grid
from tokenloom.support.checks import check_least
from tokenloom.support.files import default_cache, replacing

WALKS = 512
"""Grids of a block."""


@dataclass(frozen=True)
class CollectionConfig:
    """Options of the collection."""

    out: Path
    """The file to write: CSV, gzipped."""
    blocks: int = 8
    """Number of blocks."""
    seed: int = 0
    """Seed of the grids and of the walks."""
    questions: int = 4000
    """Questions to the exact search for each grid; a block then takes three to four minutes of a core."""
    side: int = 9
    """Side of the grids."""

    def __post_init__(self) -> None:
        check_least(self, blocks=1, questions=1)


def mined_block(
    side: int, seed: int, block: int, questions: int, cache: Path | None = None
) -> Int[Tensor, "puzzles columns"]:
    """Return the puzzles of a block, mined or from the cache: a solution, the flags of its givens and the guesses."""
    aims: tuple[Aim, Aim] = ("few", "hard")

    def build() -> Iterator[Ids]:
        own = derive_seed(seed, "mined", side, block)
        grids = random_grids(side, WALKS, own).numpy().astype(np.uint8)
        found = mine(grids, aims[block % 2], questions, np.random.default_rng(own))
        yield np.concatenate([found.solutions, found.given, found.guesses[:, None]], 1).astype(np.int32)

    key = digest("mined sudoku puzzles", side, seed, block, WALKS, questions)
    return cached_rows(cache or default_cache(), key, 2 * side * side + 1, build)


def write_collection(config: CollectionConfig) -> None:
    """Mine the blocks that are not cached, and write the collection after each."""
    cells, rows = config.side**2, []
    for block in range(config.blocks):
        start = time.perf_counter()
        found = mined_block(config.side, config.seed, block, config.questions).numpy()
        for row in found:
            solution, given, guesses = row[:cells], row[cells:-1].astype(bool), row[-1]
            rows.append(
                (
                    format_grid(np.where(given, solution, BLANK).tolist()),
                    format_grid(solution.tolist()),
                    given.sum(),
                    guesses,
                )
            )
        few, many = sum(row[2] <= FEW for row in rows), sum(row[3] >= MANY for row in rows)
        said = f"block {block + 1} of {config.blocks}, {time.perf_counter() - start:.0f} s: {len(rows):,} puzzles"
        print(f"{said}, {few:,} of at most {FEW} givens, {many:,} of at least {MANY} guesses", flush=True)
        with replacing(config.out, "pass another path") as partial, gzip.open(partial, "wt", newline="") as file:
            csv.writer(file).writerows([("Puzzle", "Solution", "Givens", "Guesses"), *rows])


if __name__ == "__main__":
    write_collection(tyro.cli(CollectionConfig))
