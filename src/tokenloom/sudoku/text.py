"""Sudoku puzzles as people write them: 16, 36 or 81 characters in reading order, with . 0 or _ for a blank.

They come one per line, or in a CSV file with a column quizzes or Puzzle, plain or gzipped; puzzles to learn from also
have a column solutions or Solution.  Whatever is wrong with one is named with its place: a wrong length, a character
that is not a digit, a digit twice in a row, a column or a box, a cell that no digit is left for.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from tokenloom.sudoku.puzzles import Puzzles, is_valid
from tokenloom.sudoku.solver import BLANK, BOXES, cell_units
from tokenloom.types import Tokens

SIDES = {side * side: side for side in BOXES}
COLUMNS = (("quizzes", "solutions"), ("puzzle", "solution"))
CODES = np.full(128, BLANK - 1, dtype=np.int8)
"""The token of each ASCII character; one below a blank for what is none."""
CODES[[ord(symbol) for symbol in "._0123456789"]] = [BLANK, BLANK, *range(BLANK, 9)]


def puzzles_of_file(path: Path) -> Tokens:
    """Read the puzzles of a file, with -1 for a blank."""
    records = _read_records(path)
    names = [name.strip().lower() for name in records[0]]
    column = next((names.index(pair[0]) for pair in COLUMNS if pair[0] in names), None)
    if column is None:
        return parse_puzzles(("".join(record) for record in records), path.name)
    if len(records) == 1:
        raise ValueError(f"{path.name} has a header but no puzzles")
    return parse_puzzles(("".join(record[column : column + 1]) for record in records[1:]), path.name)


def parse_puzzles(texts: Iterable[str], source: str | None = None) -> Tokens:
    """Return puzzles of one size, [puzzles, cells] with -1 for a blank; `source` names them in errors."""

    def name(index: int) -> str:
        return "the puzzle" if source is None else f"puzzle {index + 1} of {source}"

    found = list(texts)
    if not found:
        raise ValueError(f"{source or 'the input'} holds no puzzle")
    puzzles = _tokens(found, name).long()
    for index, cells in enumerate(puzzles.tolist()):
        reason = _contradiction(cells, SIDES[len(cells)])
        if reason is not None:
            raise ValueError(f"{name(index)} contradicts itself: {reason}")
    return puzzles


def read_puzzles(path: Path, rows: int | None = None) -> Puzzles:
    """Read the (first `rows`) puzzles of a CSV file and their solutions, which are checked."""
    header, *records = _read_records(path, rows)
    names = [name.strip().lower() for name in header]
    pair = next((pair for pair in COLUMNS if set(pair) <= set(names)), None)
    if pair is None:
        found = ", ".join(name.strip()[:40] for name in header)
        raise ValueError(
            f"{path.name} needs the columns quizzes,solutions or Puzzle,Solution, but its columns are {found}"
        )
    if not records:
        raise ValueError(f"{path.name} has a header but no rows of puzzles")

    def name(index: int) -> str:
        what, row = divmod(index, len(records))
        return f"the {('puzzle', 'solution')[what]} in row {row + 1} of {path.name}"

    columns = [names.index(column) for column in pair]
    texts = ("".join(record[column : column + 1]) for column in columns for record in records)
    puzzles, solutions = _tokens(texts, name).chunk(2)
    side = SIDES[puzzles.shape[1]]
    for broken, sentence in (
        ((solutions == BLANK).any(1), "has a blank"),
        (~is_valid(solutions, side), "has a digit twice in a row, column or box"),
        (((puzzles != BLANK) & (puzzles != solutions)).any(1), "changes a given of its puzzle"),
    ):
        if broken.any():
            raise ValueError(f"{name(len(records) + int(broken.nonzero()[0]))} {sentence}")
    return Puzzles(side, solutions, puzzles != BLANK)


def format_grid(cells: Sequence[int]) -> str:
    """Write a grid on one line, with a dot for a blank."""
    return "".join("." if cell == BLANK else str(cell + 1) for cell in cells)


def _read_records(path: Path, rows: int | None = None) -> list[list[str]]:
    """Return the header and the first `rows` records that are not blank, of a CSV file, plain or gzipped."""
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


def _tokens(texts: Iterable[str], name: Callable[[int], str]) -> Tokens:
    """Parse grids of one size as int8, all at once; `name` says in errors which one is wrong."""
    found = ["".join(text.split()) for text in texts]
    for index, text in enumerate(found):
        if len(text) not in SIDES:
            raise ValueError(
                f"{name(index)} has {len(text)} characters; a grid has 16, 36 or 81, with . 0 or _ for a blank"
            )
        if len(text) != len(found[0]):
            raise ValueError(
                f"{name(index)} has {len(text)} cells, but the first has {len(found[0])}; use one size at a time"
            )
    side = SIDES[len(found[0])]
    tokens = CODES[np.frombuffer("".join(found).encode("ascii", "replace"), np.uint8)].reshape(len(found), -1)
    stray = np.argwhere((tokens < BLANK) | (tokens >= side))
    if len(stray):
        index, cell = stray[0].tolist()
        symbol, place = found[index][cell], _place(cell, side)
        raise ValueError(f"{name(index)} has {symbol!r} at {place}; write 1..{side}, or . 0 or _ for a blank")
    return torch.from_numpy(tokens)


def _contradiction(cells: Sequence[int], side: int) -> str | None:
    """Return why a puzzle breaks the rules at once; None where it does not."""
    seen: dict[tuple[int, int], int] = {}
    for index, digit in enumerate(cells):
        for unit in cell_units(side)[index] if digit != BLANK else ():
            if (unit, digit) in seen:
                first, second = _place(seen[unit, digit], side), _place(index, side)
                kind = ("row", "column", "box")[unit // side]
                return f"{digit + 1} stands at {first} and at {second}, in the same {kind}"
            seen[unit, digit] = index
    for index, units in enumerate(cell_units(side)):
        if cells[index] == BLANK and all(any((unit, digit) in seen for unit in units) for digit in range(side)):
            return f"no digit is left for {_place(index, side)}"
    return None


def _place(index: int, side: int) -> str:
    return f"row {index // side + 1}, column {index % side + 1}"
