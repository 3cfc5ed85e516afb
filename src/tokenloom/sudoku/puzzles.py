"""Sudoku puzzles: from files, or dug out of complete grids, each with the one solution that goes with it.

A puzzle that cannot lose a given is found by taking digits out of a complete grid in random order while the solution
stays unique.  Every superset of its givens has the same unique solution: from 22 to 27 givens upwards for side 9.
"""

import csv
import gzip
import math
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.data.token_cache import cached_rows, default_cache, digest
from tokenloom.drawing.randomness import derive_seed
from tokenloom.models.tokenizer import Ids
from tokenloom.sudoku.difficulty import difficulty
from tokenloom.sudoku.solver import BLANK, BOXES, cell_units, random_puzzle
from tokenloom.types import Flags, Tokens

COLUMNS = (("quizzes", "solutions"), ("puzzle", "solution"))

ATTEMPTS = 100
"""Grids that are tried for one puzzle before its range of givens is called out of reach."""


def is_valid(grids: Tokens, side: int) -> Bool[Tensor, "batch"]:
    """Whether every row, column and box holds every digit once."""
    units = torch.tensor(cell_units(side), device=grids.device)
    members = torch.stack([(units == unit).any(1).nonzero().squeeze(1) for unit in range(3 * side)])
    in_order = grids[:, members].sort(-1).values
    return (in_order == torch.arange(side, device=grids.device)).all(-1).all(-1)


@dataclass(frozen=True)
class Puzzles:
    """Solutions as int8 tokens, and which cells of each a puzzle gives."""

    side: int
    solutions: Tokens
    given: Flags

    @property
    def posed(self) -> Tokens:
        """The puzzles themselves, -1 for a blank."""
        return torch.where(self.given, self.solutions.long(), BLANK)

    @cached_property
    def difficulty(self) -> Int[Tensor, "batch"]:
        """How deep logic must look to solve each (`difficulty.py`)."""
        return difficulty(self.posed, self.side)


def read_puzzles(path: Path, rows: int | None = None) -> Puzzles:
    """The (first `rows`) puzzles of a CSV file, plain or gzipped: columns quizzes,solutions or Puzzle,Solution."""
    header, *records = read_records(path, rows)
    names = [name.strip().lower() for name in header]
    pair = next((pair for pair in COLUMNS if set(pair) <= set(names)), None)
    if pair is None:
        found = ", ".join(name.strip()[:40] for name in header)
        raise ValueError(
            f"{path.name} needs the columns quizzes,solutions or Puzzle,Solution, but its columns are {found}"
        )
    if not records:
        raise ValueError(f"{path.name} has a header but no rows of puzzles")
    texts = [[_field(record, names.index(name)) for record in records] for name in pair]
    side = math.isqrt(len(texts[0][0]))
    if side not in BOXES or side * side != len(texts[0][0]):
        raise ValueError(f"row 1 of {path.name} has a puzzle of {len(texts[0][0])} characters; a grid has 16, 36 or 81")
    puzzles = _tokens(texts[0], "puzzle", side, path.name)
    solutions = _tokens(texts[1], "solution", side, path.name)
    for broken, sentence in (
        ((solutions == BLANK).any(1), "has a solution with a blank"),
        (~is_valid(solutions, side), "has a solution with a digit twice in a row, column or box"),
        (((puzzles != BLANK) & (puzzles != solutions)).any(1), "has a solution that changes a given of its puzzle"),
    ):
        if broken.any():
            raise ValueError(f"row {int(broken.nonzero()[0]) + 1} of {path.name} {sentence}")
    return Puzzles(side, solutions, puzzles != BLANK)


def minimal_puzzles(side: int, rows: int, seed: int, cache: Path | None = None) -> Puzzles:
    """Puzzles that cannot lose a given, from a grid each; kept in the cache, as finding them takes a while."""
    cells = side * side

    def build() -> Iterator[Ids]:
        order = random.Random(seed)
        for _ in range(rows):
            puzzle, solution = random_puzzle(side, 0, order, attempts=1)
            yield np.array([[*solution, *(digit != BLANK for digit in puzzle)]], dtype=np.int32)

    key = digest("minimal sudoku puzzles", side, rows, seed)
    table = cached_rows(default_cache() if cache is None else cache, key, 2 * cells, build)
    return Puzzles(side, table[:, :cells].to(torch.int8), table[:, cells:].bool())


def unique_puzzles(count: int, givens: tuple[int, int], seed: int, side: int = 9, minimal: bool = False) -> Puzzles:
    """Puzzles with one solution whose numbers of givens are in the range (with both ends), to evaluate on.

    They aim at every number in turn.  Where a grid cannot be dug that far a few are tried and the least is kept, so
    the lowest numbers (below 23 for side 9) are met as often as random digging finds them.  With `minimal` none can
    lose a given, and every number is met as often as random digging finds it.

    The random numbers are not those of `minimal_puzzles` and `random_grids` with the same seed: else the model would be
    asked for the very grids that it was trained on.
    """
    low, high = givens
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    if not 0 <= low <= high <= side * side:
        raise ValueError(f"givens must be a range within 0..{side * side} for side {side}, got {low}..{high}")
    order = random.Random(derive_seed(seed, "puzzles to evaluate on"))
    aims = (0 if minimal else low + index % (high - low + 1) for index in range(count))
    found = [_puzzle_within(side, aim, (low, high), order, 1 if minimal else 4) for aim in aims]
    puzzles, solutions = (torch.tensor(part, dtype=torch.int8) for part in zip(*found, strict=True))
    return Puzzles(side, solutions, puzzles != BLANK)


def _puzzle_within(
    side: int, aim: int, givens: tuple[int, int], order: random.Random, tries: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    low, high = givens
    for _ in range(ATTEMPTS // tries):
        puzzle, solution = random_puzzle(side, aim, order, tries)
        if low <= side * side - puzzle.count(BLANK) <= high:
            return puzzle, solution
    raise ValueError(f"none of {ATTEMPTS} grids had such a puzzle of {low} to {high} givens; widen the range")


def read_records(path: Path, rows: int | None = None) -> list[list[str]]:
    """The header and the first `rows` records that are not blank, of a CSV file, plain or gzipped."""
    if not path.is_file():
        raise ValueError(f"there is no file {path} with Sudoku puzzles")
    with path.open("rb") as stream:
        gzipped = stream.read(2) == b"\x1f\x8b"
    try:
        with (gzip.open if gzipped else open)(path, "rt", encoding="utf-8-sig", newline="") as text:
            lines = (record for record in csv.reader(text) if any(field.strip() for field in record))
            records = list(islice(lines, None if rows is None else rows + 1))
    except (UnicodeDecodeError, csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path.name} is not a CSV text file, plain or gzipped: {error}") from error
    if not records:
        raise ValueError(f"{path.name} is empty; write one puzzle per line")
    if any("\0" in field for field in records[0]):
        raise ValueError(f"{path.name} is not a CSV text file, plain or gzipped: it holds zero bytes")
    return records


def _field(record: list[str], index: int) -> str:
    return record[index].strip() if index < len(record) else ""


def _tokens(texts: list[str], what: str, side: int, name: str) -> Tokens:
    """Digits as tokens, '0' and '.' as BLANK."""
    for row, text in enumerate(texts, 1):
        if len(text) != side * side:
            raise ValueError(f"row {row} of {name} has a {what} of {len(text)} characters, expected {side * side}")
    codes = np.frombuffer("".join(texts).encode("ascii", "replace"), dtype=np.uint8).reshape(-1, side * side)
    tokens = np.where(codes == ord("."), BLANK, codes.astype(np.int16) - ord("1"))
    stray = np.argwhere((tokens < BLANK) | (tokens >= side))
    if len(stray):
        row, cell = stray[0]
        raise ValueError(f"row {row + 1} of {name} has {texts[row][cell]!r} in its {what}; digits are 1..{side}")
    return torch.from_numpy(tokens.astype(np.int8))
