"""Sudoku puzzles as people write them: 16, 36 or 81 characters in reading order, with . 0 or _ for a blank.

They come one per line, or in a CSV file with a column quizzes or Puzzle, plain or gzipped.  Whatever is wrong with one
is named with its place: a wrong length, a character that is not a digit, a digit twice in a row, a column or a box, a
cell that no digit is left for.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from tokenloom.sudoku.puzzles import COLUMNS, read_records
from tokenloom.sudoku.solver import BLANK, BOXES, cell_units
from tokenloom.types import Tokens

BLANKS = "._0"
SIDES = {side * side: side for side in BOXES}


def puzzles_of_file(path: Path) -> Tokens:
    """The puzzles of a file, with -1 for a blank."""
    records = read_records(path)
    names = [name.strip().lower() for name in records[0]]
    column = next((names.index(pair[0]) for pair in COLUMNS if pair[0] in names), None)
    if column is None:
        return parse_puzzles(("".join(record) for record in records), path.name)
    if len(records) == 1:
        raise ValueError(f"{path.name} has a header but no puzzles")
    return parse_puzzles((record[column] if column < len(record) else "" for record in records[1:]), path.name)


def parse_puzzles(texts: Iterable[str], source: str | None = None) -> Tokens:
    """Puzzles of one size, [puzzles, cells] with -1 for a blank; `source` names them in errors, with their number."""
    puzzles: list[list[int]] = []
    for number, text in enumerate(texts, 1):
        name = "the puzzle" if source is None else f"puzzle {number} of {source}"
        puzzles.append(_parse("".join(text.split()), name))
        if len(puzzles[-1]) != len(puzzles[0]):
            raise ValueError(
                f"{name} has {len(puzzles[-1])} cells, but the first has {len(puzzles[0])}; solve one size at a time"
            )
    if not puzzles:
        raise ValueError(f"{source or 'the input'} holds no puzzle")
    return torch.tensor(puzzles, dtype=torch.int64)


def format_grid(cells: Sequence[int]) -> str:
    """A grid on one line, with a dot for a blank."""
    return "".join("." if cell == BLANK else str(cell + 1) for cell in cells)


def _parse(text: str, name: str) -> list[int]:
    if len(text) not in SIDES:
        raise ValueError(f"{name} has {len(text)} characters; a grid has 16, 36 or 81, with . 0 or _ for a blank")
    side = SIDES[len(text)]
    cells: list[int] = []
    for index, symbol in enumerate(text):
        if symbol not in BLANKS and symbol not in "123456789"[:side]:
            raise ValueError(
                f"{name} has {symbol!r} at {_place(index, side)}; write 1..{side}, or . 0 or _ for a blank"
            )
        cells.append(BLANK if symbol in BLANKS else int(symbol) - 1)
    _check_consistent(cells, side, name)
    return cells


def _check_consistent(cells: Sequence[int], side: int, name: str) -> None:
    seen: dict[tuple[int, int], int] = {}
    for index, digit in enumerate(cells):
        for unit in cell_units(side)[index] if digit != BLANK else ():
            if (unit, digit) in seen:
                kind = ("row", "column", "box")[unit // side]
                first, second = _place(seen[unit, digit], side), _place(index, side)
                raise ValueError(
                    f"{name} contradicts itself: {digit + 1} stands at {first} and at {second}, in the same {kind}"
                )
            seen[unit, digit] = index
    for index, units in enumerate(cell_units(side)):
        if cells[index] == BLANK and all(any((unit, digit) in seen for unit in units) for digit in range(side)):
            raise ValueError(f"{name} contradicts itself: no digit is left for {_place(index, side)}")


def _place(index: int, side: int) -> str:
    return f"row {index // side + 1}, column {index % side + 1}"
