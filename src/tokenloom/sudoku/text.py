"""Sudoku puzzles as people write them: 16, 36 or 81 characters in reading order, with . 0 or _ for a blank.

They come one per line, or in a CSV file with a column quizzes or Puzzle, plain or gzipped; puzzles to learn from also
have a column solutions or Solution.  Errors name the place of what is wrong.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from tokenloom.data.documents import read_lines
from tokenloom.sudoku.puzzles import Puzzles, is_valid
from tokenloom.sudoku.solver import BLANK, SIDES, cell_units
from tokenloom.types import Tokens

CODES = np.full(128, BLANK - 1, dtype=np.int8)
"""The token of each ASCII character; one below a blank if it has none."""
CODES[[ord(symbol) for symbol in "._0123456789"]] = [BLANK, BLANK, *range(BLANK, 9)]


def puzzles_of_file(path: Path) -> Tokens:
    """Read the puzzles of a file, with -1 for a blank."""
    records = _read_records(path)
    puzzles = _column(records, "quizzes", "puzzle")
    return parse_puzzles(map("".join, records) if puzzles is None else puzzles, path.name)


def parse_puzzles(texts: Iterable[str], source: str | None = None) -> Tokens:
    """Return puzzles of one size, [puzzles, cells] with -1 for a blank; `source` names them in errors."""

    def name(index: int) -> str:
        return "the puzzle" if source is None else f"puzzle {index + 1} of {source}"

    puzzles = _tokens(texts, name, source or "the input").long()
    for index, cells in enumerate(puzzles.tolist()):
        if reason := _contradiction(cells, SIDES[len(cells)]):
            raise ValueError(f"{name(index)} contradicts itself: {reason}")
    return puzzles


def read_puzzles(path: Path, rows: int | None = None) -> Puzzles:
    """Read the (first `rows`) puzzles of a CSV file and their solutions, which are checked."""
    records = _read_records(path, rows)
    puzzles, solutions = _column(records, "quizzes", "puzzle"), _column(records, "solutions", "solution")
    if puzzles is None or solutions is None:
        found = ", ".join(name.strip()[:40] for name in records[0])
        needed = "the columns quizzes,solutions or Puzzle,Solution"
        raise ValueError(f"{path.name} needs {needed}, but its columns are {found}")
    count = len(puzzles)

    def name(index: int) -> str:
        return f"the {'puzzle' if index < count else 'solution'} in row {index % count + 1} of {path.name}"

    posed, solved = _tokens(puzzles + solutions, name, path.name).chunk(2)
    side = SIDES[posed.shape[1]]
    for broken, sentence in (
        ((solved == BLANK).any(1), "has a blank"),
        (~is_valid(solved, side), "has a digit twice in a row, column or box"),
        (((posed != BLANK) & (posed != solved)).any(1), "changes a given of its puzzle"),
    ):
        if broken.any():
            raise ValueError(f"{name(count + int(broken.nonzero()[0]))} {sentence}")
    return Puzzles(side, solved, posed != BLANK)


def format_grid(cells: Sequence[int]) -> str:
    """Write a grid on one line, with a dot for a blank."""
    return "".join("." if cell == BLANK else str(cell + 1) for cell in cells)


def _read_records(path: Path, rows: int | None = None) -> list[list[str]]:
    """Return the header and the first `rows` records that are not blank, of a CSV file, plain or gzipped."""
    if not path.is_file():
        raise ValueError(f"there is no file {path} with Sudoku puzzles")
    try:
        records = (record for record in csv.reader(read_lines(path)) if any(field.strip() for field in record))
        found = list(islice(records, None if rows is None else rows + 1))
    except csv.Error as error:
        raise ValueError(f"{path} is not a CSV file: {error}") from error
    if not found:
        raise ValueError(f"{path.name} is empty; write one puzzle per line")
    return found


def _column(records: Sequence[Sequence[str]], *known: str) -> list[str] | None:
    """Return the column with the first of these names that the header has; None if it has none of them."""
    names = [name.strip().lower() for name in records[0]]
    place = next((names.index(name) for name in known if name in names), None)
    return None if place is None else ["".join(record[place : place + 1]) for record in records[1:]]


def _tokens(texts: Iterable[str], name: Callable[[int], str], source: str) -> Tokens:
    """Parse grids of one size as int8, all at once; `name` says in errors which one is wrong."""
    found = ["".join(text.split()) for text in texts]
    if not found:
        raise ValueError(f"{source} holds no puzzle; write one per line")
    for index, text in enumerate(found):
        if len(text) not in SIDES or len(text) != len(found[0]):
            size = f"{len(found[0])}, as the first" if index else "16, 36 or 81"
            raise ValueError(f"{name(index)} has {len(text)} characters; a grid has {size}, with . 0 or _ for a blank")
    side = SIDES[len(found[0])]
    tokens = CODES[np.frombuffer("".join(found).encode("ascii", "replace"), np.uint8)].reshape(len(found), -1)
    stray = np.argwhere((tokens < BLANK) | (tokens >= side))
    if len(stray):
        index, cell = stray[0].tolist()
        what = f"{found[index][cell]!r} at {_place(cell, side)}"
        raise ValueError(f"{name(index)} has {what}; write 1..{side}, or . 0 or _ for a blank")
    return torch.from_numpy(tokens)


def _contradiction(cells: Sequence[int], side: int) -> str | None:
    """Return why a puzzle breaks the rules at once; None where it does not."""
    seen: dict[tuple[int, int], int] = {}
    for index, digit in enumerate(cells):
        for unit in cell_units(side)[index] if digit != BLANK else ():
            if (first := seen.setdefault((unit, digit), index)) != index:
                kind = ("row", "column", "box")[unit // side]
                return f"{digit + 1} stands at {_place(first, side)} and at {_place(index, side)}, in the same {kind}"
    for index, units in enumerate(cell_units(side)):
        if cells[index] == BLANK and all(any((unit, digit) in seen for unit in units) for digit in range(side)):
            return f"no digit is left for {_place(index, side)}"
    return None


def _place(index: int, side: int) -> str:
    return f"row {index // side + 1}, column {index % side + 1}"
