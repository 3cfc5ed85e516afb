r"""Sudoku: grids whose rows, columns and boxes hold every digit once, of side 4, 6 (boxes 2 high, 3 wide) and 9.

A sequence is a complete grid in reading order and a token a digit minus one.  The grids come from a file, or every one
is searched anew from a random start and then moved by a random symmetry.  The symmetries g keep the rules,

    g = relabel the digits o permute bands and stacks o permute rows within bands, columns within stacks (o transpose),

with the transposition only where boxes are square: 9! 2 6^8 of them for side 9, 6! 3456 for side 6, 4! 128 for side 4.
`augment` draws from this group, so no two splits may share a grid *up to* it.  Splits go by an invariant: for rows a
and b, the permutation that takes the digit of a to the digit of b in the same column keeps its cycle type when digits
are relabelled and columns permuted, and inverts when a and b change places.  The cycle types of all pairs of rows and
of all pairs of columns agree for equivalent grids.  Grids with equal invariants stay on one side, equivalent or not.

Side 6 has 49 classes, of which whole ones are held out.  Side 4 has 288 grids in 2 classes, too few to hold one out:
there the grids themselves are split, with no augmentation (it would carry validation grids into training).  A held-out
grid of side 4 is never a training grid, but it is the image of one: its loss says little about new classes.
"""

import csv
import gzip
import hashlib
import math
import random
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Generator, Tensor

from tokenloom.categorical import draw_uniform_tokens
from tokenloom.data.base import Dataset
from tokenloom.data.sudoku_solver import BLANK, BOXES, box_shape, cell_units, random_grid, solve
from tokenloom.nn.conditioning import grid_relations
from tokenloom.randomness import uniform
from tokenloom.types import Flags, Tokens

GIVENS = {4: (4, 10), 6: (8, 24), 9: (17, 50)}
"""The range of givens by default: from the fewest that can make a solution unique to about two thirds of the cells."""

COLUMNS = (("quizzes", "solutions"), ("puzzle", "solution"))

CHUNK = 8192
"""Grids whose invariants are computed at once."""


def load_sudoku(
    side: int,
    path: Path | None = None,
    rows: int = 20_000,
    seed: int = 0,
    valid_fraction: float = 0.05,
    givens: tuple[int, int] | None = None,
) -> Dataset:
    """Complete grids: the first `rows` solutions of the file, or `rows` random ones (at most the 288 of side 4).

    `valid_fraction` is met as nearly as whole classes allow.  `givens` is the range of `draw_fixed`, with both ends.
    """
    height, width = box_shape(side)
    low, high = GIVENS[side] if givens is None else givens
    if not 0 <= low <= high <= side * side:
        raise ValueError(f"givens must be a range within 0..{side * side} for side {side}, got {low}..{high}")
    if not 0 < valid_fraction < 1:
        raise ValueError(f"valid_fraction must be in (0, 1), got {valid_fraction:g}")
    if rows < 2:
        raise ValueError(f"rows must be at least 2, one for each split, got {rows}")
    grids = random_grids(side, rows, seed) if path is None else _solutions_of(path, side, rows)
    classes: Sequence[Hashable] = [tuple(grid) for grid in grids.tolist()] if side == 4 else class_keys(grids, side)
    held_out = _hold_out(classes, valid_fraction, seed)
    train, valid = grids[~held_out], grids[held_out]
    digest = hashlib.sha256(repr((side, rows, seed, valid_fraction, low, high)).encode())
    for table in (train, valid):
        digest.update(repr(tuple(table.shape)).encode() + table.numpy().tobytes())
    return Dataset(
        name=f"sudoku-{side}x{side}",
        vocab_size=side,
        train=train,
        valid=valid,
        fingerprint=digest.hexdigest(),
        decode=partial(decode, side=side),
        augment=None if side == 4 else partial(augment, side=side),
        draw_fixed=partial(draw_fixed, low=low, high=high),
        relations=grid_relations(side, height, width),
    )


def random_grids(side: int, rows: int, seed: int) -> Tokens:
    """Complete grids as int8, each from a search of its own; for side 4 distinct ones, at most all 288."""
    order = random.Random(seed)
    if side == 4:
        every = solve([BLANK] * 16, side, limit=1000)
        return torch.tensor(order.sample(every, min(rows, len(every))), dtype=torch.int8)
    grids = torch.tensor([random_grid(side, order) for _ in range(rows)])
    return augment(grids, torch.Generator().manual_seed(seed), side).to(torch.int8)


def is_valid(grids: Tokens, side: int) -> Bool[Tensor, "batch"]:
    """Whether every row, column and box holds every digit once."""
    units = torch.tensor(cell_units(side), device=grids.device)
    members = torch.stack([(units == unit).any(1).nonzero().squeeze(1) for unit in range(3 * side)])
    in_order = grids[:, members].sort(-1).values
    return (in_order == torch.arange(side, device=grids.device)).all(-1).all(-1)


def decode(grids: Tokens, side: int) -> list[str]:
    """One string a grid, a line a row; what is no digit (a mask) is a dot."""
    symbols = [["." if not 0 <= token < side else str(token + 1) for token in grid] for grid in grids.tolist()]
    return ["\n".join("".join(grid[start : start + side]) for start in range(0, side * side, side)) for grid in symbols]


def draw_fixed(x_0: Tokens, generator: Generator, low: int, high: int) -> Flags:
    """The given cells: their number is uniform on low..high, and every set of that many cells equally likely."""
    batch, cells = x_0.shape
    count = low + draw_uniform_tokens(uniform((batch, 1), generator, x_0.device), high - low + 1)
    return _draw_permutations((batch, cells), generator, x_0.device) < count


def augment(x_0: Tokens, generator: Generator, side: int) -> Tokens:
    """Each grid moved by a symmetry of its own, uniform on the group."""
    moved = x_0.gather(1, draw_cell_moves(len(x_0), side, generator, x_0.device))
    labels = _draw_permutations((len(x_0), side), generator, x_0.device).to(x_0.dtype)
    return labels.gather(1, moved.long())


def draw_cell_moves(batch: int, side: int, generator: Generator, device: torch.device) -> Int[Tensor, "batch cells"]:
    """Where each cell of a moved grid comes from: bands, stacks, rows and columns permuted, maybe transposed."""
    height, width = box_shape(side)
    lines = [_draw_lines(batch, side, thickness, generator, device) for thickness in (height, width)]
    source = lines[0][:, :, None] * side + lines[1][:, None, :]
    if height == width:
        transposed = uniform((batch, 1, 1), generator, device) < 0.5
        source = torch.where(transposed, source.transpose(1, 2), source)
    return source.flatten(1)


def _draw_lines(batch: int, side: int, thickness: int, generator: Generator, device: torch.device) -> Tensor:
    """Rows (or columns) permuted within bands of `thickness`, and the bands permuted."""
    bands = _draw_permutations((batch, side // thickness), generator, device)
    within = _draw_permutations((batch, side // thickness, thickness), generator, device)
    return (bands.unsqueeze(-1) * thickness + within).flatten(1)


def _draw_permutations(shape: tuple[int, ...], generator: Generator, device: torch.device) -> Tensor:
    """Permutations of the last dimension: the order of uniform numbers."""
    return uniform(shape, generator, device).argsort(-1)


def class_keys(grids: Tokens, side: int) -> list[bytes]:
    """An invariant of each grid under the symmetries: equivalent grids have equal keys."""
    height, width = box_shape(side)
    keys: list[bytes] = []
    for chunk in torch.split(grids, CHUNK):
        square = chunk.reshape(-1, side, side).long()
        rows = _cycle_types(square, height).numpy()
        columns = _cycle_types(square.transpose(1, 2), width).numpy()
        for key in zip(rows, columns, strict=True):
            parts = [part.tobytes() for part in key]
            keys.append(b"".join(sorted(parts) if height == width else parts))
    return keys


def _cycle_types(lines: Int[Tensor, "batch side side"], thickness: int) -> Int[Tensor, "batch pairs"]:
    """The cycle types of all pairs of lines, with whether the two share a band, in ascending order.

    A cycle type is coded by how many digits the first, second, ... power of the permutation leaves in place.
    """
    side = lines.shape[1]
    pairs = torch.triu_indices(side, side, 1)
    first, second = pairs[0], pairs[1]
    place_of_digit = lines.argsort(-1)
    takes = lines[:, second].gather(-1, place_of_digit[:, first])
    power, code = takes, (first // thickness == second // thickness).long().expand(len(lines), -1)
    for _ in range(side):
        code = code * (side + 1) + (power == torch.arange(side)).sum(-1)
        power = takes.gather(-1, power)
    return code.sort(-1).values


def _hold_out(classes: Sequence[Hashable], fraction: float, seed: int) -> Bool[Tensor, "rows"]:
    """Whole classes in random order, each taken if it brings the share nearer to `fraction`; if none, the smallest."""
    members: dict[Hashable, list[int]] = {}
    for row, key in enumerate(classes):
        members.setdefault(key, []).append(row)
    if len(members) < 2:
        raise ValueError(
            f"none of the {len(classes)} grids can be held out, as all may be equal up to symmetry; add others"
        )
    groups = list(members.values())
    wanted, held = max(1, round(fraction * len(classes))), 0
    held_out = torch.zeros(len(classes), dtype=torch.bool)
    for index in np.random.default_rng(seed).permutation(len(groups)):
        size = len(groups[index])
        if size < 2 * (wanted - held) and held + size < len(classes):
            held_out[groups[index]] = True
            held += size
    if not held:
        held_out[min(groups, key=len)] = True
    return held_out


@dataclass(frozen=True)
class Puzzles:
    """Solutions as int8 tokens, and which cells of each a puzzle gives."""

    side: int
    solutions: Tokens
    given: Flags


def read_puzzles(path: Path, rows: int | None = None) -> Puzzles:
    """The (first `rows`) puzzles of a CSV file, plain or gzipped: columns quizzes,solutions or Puzzle,Solution."""
    if not path.is_file():
        raise ValueError(f"there is no file {path} with Sudoku puzzles")
    header, *records = _records(path, rows)
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


def _solutions_of(path: Path, side: int, rows: int) -> Tokens:
    puzzles = read_puzzles(path, rows)
    if puzzles.side != side:
        raise ValueError(
            f"{path.name} holds grids of side {puzzles.side}, but side is {side}; pass side={puzzles.side}"
        )
    return puzzles.solutions


def _records(path: Path, rows: int | None) -> list[list[str]]:
    """The header and the first `rows` records that are not blank."""
    with path.open("rb") as stream:
        gzipped = stream.read(2) == b"\x1f\x8b"
    try:
        with (gzip.open if gzipped else open)(path, "rt", encoding="utf-8-sig", newline="") as text:
            lines = (record for record in csv.reader(text) if any(field.strip() for field in record))
            records = list(islice(lines, None if rows is None else rows + 1))
    except (UnicodeDecodeError, csv.Error, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path.name} is no CSV text file, plain or gzipped: {error}") from error
    if not records:
        raise ValueError(f"{path.name} is empty")
    if any("\0" in field for field in records[0]):
        raise ValueError(f"{path.name} is no CSV text file, plain or gzipped: it holds zero bytes")
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
