"""Four sets of puzzles like those that people paste, chosen from a mined collection that no training has seen.

    python -m tokenloom.sudoku.collection --out held_out.csv.gz --seed 101 --blocks 4
    python -m benchmarks.sudoku_sets held_out.csv.gz sets

    pasted    20 to 29 givens, every number equally often: minimal puzzles with random givens added
    search    at most 25 givens and at least 10 guesses
    few       the fewest givens, from 20 down
    hardest   the most guesses

A grid occurs at most once in a set.
"""

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

COUNT = 200


@dataclass(frozen=True)
class Mined:
    """A puzzle of the collection."""

    puzzle: str
    solution: str
    givens: int
    guesses: int


def read(path: Path) -> list[Mined]:
    """Read a collection."""
    with gzip.open(path, "rt", newline="") as file:
        return [Mined(puzzle, solution, int(givens), int(number)) for puzzle, solution, givens, number in
                list(csv.reader(file))[1:]]  # fmt: skip


def pick(found: list[Mined]) -> list[Mined]:
    """Return the first puzzle of each grid, at most `COUNT`."""
    of_grid = dict[str, Mined]()
    for one in found:
        of_grid.setdefault(one.solution, one)
    return list(of_grid.values())[:COUNT]


def padded(one: Mined, givens: int, generator: np.random.Generator) -> Mined:
    """Add random givens up to a number of them."""
    blanks = [cell for cell, symbol in enumerate(one.puzzle) if symbol == "."]
    added = set(generator.permutation(blanks)[: max(0, givens - one.givens)].tolist())
    cells = (one.solution[cell] if cell in added else symbol for cell, symbol in enumerate(one.puzzle))
    return Mined("".join(cells), one.solution, max(givens, one.givens), one.guesses)


def main(collection: tyro.conf.Positional[Path], out: tyro.conf.Positional[Path], seed: int = 0) -> None:
    """Write the four sets."""
    generator = np.random.default_rng(seed)
    found = read(collection)
    mixed = [found[index] for index in generator.permutation(len(found))]
    pasted = []
    for number, one in enumerate(pick([one for one in mixed if one.givens <= 24])):
        pasted.append(padded(one, 20 + number % 10, generator))
    sets = {
        "pasted": pasted,
        "search": pick([one for one in mixed if one.givens <= 25 and one.guesses >= 10]),
        "few": pick(sorted((one for one in mixed if one.givens <= 20), key=lambda one: one.givens)),
        "hardest": pick(sorted(mixed, key=lambda one: -one.guesses)),
    }
    out.mkdir(parents=True, exist_ok=True)
    for name, chosen in sets.items():
        with (out / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("Puzzle", "Solution"), *((one.puzzle, one.solution) for one in chosen)])
        givens, rated = ([getattr(one, key) for one in chosen] for key in ("givens", "guesses"))
        spread = f"{min(givens)}..{max(givens)} givens, {min(rated)}..{max(rated)} guesses, median {np.median(rated):g}"
        print(f"{name}: {len(chosen)} puzzles, {spread}")


if __name__ == "__main__":
    tyro.cli(main)
