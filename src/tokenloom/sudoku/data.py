r"""Sudoku: grids whose rows, columns and boxes hold every digit once, of side 4, 6 (boxes 2 high, 3 wide) and 9.

A sequence is a complete grid in reading order and a token a digit minus one.  Training moves every grid by a random
symmetry (`symmetries.py`), so the splits may not share a grid *up to* symmetry: grids with equal invariants, equivalent
or not, stay on one side.

Side 4 has 288 grids in 2 classes, too few to hold one out: there the grids themselves are split, with no augmentation
(it would carry validation grids into training).  A held-out grid of side 4 is never a training grid, but it is the
image of one: its loss says little about new classes.
"""

import hashlib
import random
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Int
from torch import Generator, Tensor

from tokenloom.data.base import SOURCES, Dataset, Outline, Source, Split
from tokenloom.data.decoder import Decoder
from tokenloom.drawing.categorical import draw_uniform_tokens
from tokenloom.drawing.randomness import starting_at, uniform
from tokenloom.sudoku.difficulty import cached_difficulty, hard_rows
from tokenloom.sudoku.mixture import Shares, check_shares, kinds_of, mixed_rows
from tokenloom.sudoku.network import grid_relations
from tokenloom.sudoku.puzzles import minimal_puzzles, violations
from tokenloom.sudoku.solver import BLANK, box_shape, check_givens, random_grid, solve
from tokenloom.sudoku.symmetries import augment, class_keys, draw_permutations
from tokenloom.sudoku.text import read_puzzles
from tokenloom.support.addresses import local
from tokenloom.types import Flags, Tokens

UNIQUE_SHARE = 0.75
"""Share of the rows with a puzzle that are given a superset of it; the others are given cells at random."""

EXTRA = 12
"""Most cells that are given beyond a puzzle."""


@dataclass(frozen=True)
class SudokuDataset(Dataset):
    """Grids that are to be completed from the cells given of them."""

    givens: tuple[int, int] = field(kw_only=True)
    puzzles: tuple[Flags, Flags] | None = None
    """For every row of the two tables, flags of cells that determine the others."""
    bare: float = 0.0
    """Share of the rows with a puzzle that are given no other cell."""

    @property
    def outline(self) -> Outline:
        return SudokuSource(side=self.vocab_size).outline()

    def draw(self, split: Split, rows: Tensor, generator: Generator) -> tuple[Tokens, Flags]:
        x_0, _ = super().draw(split, rows, generator)
        puzzle = None if self.puzzles is None else self.puzzles[split == "valid"][rows]
        if split == "train" and self.vocab_size > 4:
            x_0, puzzle = augment(x_0, puzzle, generator, self.vocab_size)
        return x_0, draw_given(x_0, puzzle, generator, *self.givens, self.bare)

    def grades(self, samples: Tokens) -> dict[str, float]:
        broken = violations(samples, self.vocab_size).double()
        return {"solve_rate": float((broken == 0).double().mean()), "violations": float(broken.mean())}


def grid_decoder(side: int) -> Decoder:
    """Write a grid with its boxes set apart, and a dot for what is not a digit (a mask)."""
    height, width = box_shape(side)

    def after(position: int) -> str:
        row, column = divmod(position, side)
        if column < side - 1:
            return "  " if (column + 1) % width == 0 else " "
        return "\n\n" if (row + 1) % height == 0 and row < side - 1 else "\n"

    return Decoder(lambda token: str(token + 1) if 0 <= token < side else ".", after)


@SOURCES.register("sudoku")
@dataclass(frozen=True)
class SudokuSource(Source):
    """Complete grids, generated or from a file, with the givens of puzzles."""

    kind: str = "sudoku"
    side: int = 9
    """Side of the grid: 4, 6 or 9."""
    path: str | None = None
    """A CSV file with quizzes,solutions; by default grids are generated."""
    givens: tuple[int, int] = (24, 50)
    """Fewest and most given cells."""
    puzzles: Literal["random", "unique"] = "random"
    """Given cells at random, or mostly such that the solution is unique (20 rows per second are found for side 9)."""
    hard: float = 0.0
    """Share of the training rows whose puzzle needs more than singles; only with unique puzzles.  The harder a puzzle,
    the more often it is drawn, and the same share of the rows is given no cell beyond its puzzle."""
    mixture: Shares | None = None
    """Shares of the training rows whose puzzle singles solve, that needs some guesses, that needs many, and that has
    few givens (`mixture.py`); only with unique puzzles, and instead of hard."""
    rows: int = 50_000
    """Rows to generate, or to read."""
    seed: int = 0
    """Seed of the generated grids and of the split."""

    def outline(self) -> Outline:
        side = self.side
        return Outline(f"sudoku-{side}x{side}", side, side * side, grid_relations(side), given=True)

    def decoder(self, vocab_size: int, length: int) -> Decoder:
        return grid_decoder(self.side)

    def load(self, valid_fraction: float = 0.05, cache: Path | None = None) -> SudokuDataset:
        """Read or generate the grids, at most the 288 of side 4, and hold out `valid_fraction`, in whole classes.

        Puzzles that were searched are kept in `cache`.  Hard ones are drawn for training alone, and the share `hard` of
        the rows is given no other cell: of the puzzles that need more than singles, 4% still do with six more givens.
        """
        self._check(valid_fraction)
        side = self.side
        grids, marks = self._grids(cache)
        classes: Sequence[Hashable] = list(map(tuple, grids.tolist())) if side == 4 else class_keys(grids, side)
        others = _held_out(classes, valid_fraction, self.seed)
        chosen = torch.ones(len(grids), dtype=torch.bool).index_fill(0, others, False).nonzero()[:, 0]
        if self.hard and marks is not None:
            rated = cached_difficulty(torch.where(marks, grids.long(), BLANK), side, cache)
            chosen = chosen[hard_rows(rated[chosen], self.hard, self.seed)]
        if self.mixture is not None and marks is not None:
            kinds = kinds_of(torch.where(marks, grids.long(), BLANK), side, cache)
            chosen = chosen[mixed_rows(kinds[chosen], self.mixture, self.seed)]
        train, valid = grids[chosen], grids[others]
        digest = hashlib.sha256(repr((side, self.rows, self.seed, valid_fraction, *self.givens)).encode())
        for table in (train, valid) if marks is None else (train, valid, marks):
            digest.update(repr(tuple(table.shape)).encode() + table.numpy().tobytes())
        digest.update(repr(self.hard).encode() if self.hard else b"")
        digest.update(b"" if self.mixture is None else repr(self.mixture).encode())
        bare = self.hard if self.mixture is None else 1 - self.mixture[0]
        facts = self.outline().name, side, train, valid, digest.hexdigest(), grid_decoder(side)
        puzzles = None if marks is None else (marks[chosen], marks[others])
        return SudokuDataset(*facts, givens=self.givens, puzzles=puzzles, bare=bare)

    def _check(self, valid_fraction: float) -> None:
        box_shape(self.side)
        check_givens(*self.givens, self.side)
        if not 0 < valid_fraction < 1:
            raise ValueError(f"valid_fraction must be in (0, 1), got {valid_fraction:g}")
        if self.rows < 2:
            raise ValueError(f"rows must be at least 2, one for each split, got {self.rows}")
        if not 0 <= self.hard <= 1 or (self.hard and self.puzzles == "random"):
            got = f"{self.hard:g} with {self.puzzles} puzzles"
            raise ValueError(f"hard must be in [0, 1], and 0 unless puzzles are unique, got {got}")
        if self.mixture is not None:
            check_shares(self.mixture)
            if self.hard or self.puzzles == "random":
                got = f"hard {self.hard:g} and {self.puzzles} puzzles"
                raise ValueError(f"a mixture needs unique puzzles, and takes the place of hard, got {got}")

    def _grids(self, cache: Path | None) -> tuple[Tokens, Flags | None]:
        """Return complete grids, and the flags of their puzzles if these are to be unique."""
        if self.path is not None:
            found = read_puzzles(local(self.path), self.rows)
            if (side := found.side) != self.side:
                raise ValueError(f"{self.path} has grids of side {side}, but side is {self.side}; set it to {side}")
        elif self.puzzles == "unique":
            found = minimal_puzzles(self.side, self.rows, self.seed, cache)
        else:
            return random_grids(self.side, self.rows, self.seed), None
        return found.solutions, found.given if self.puzzles == "unique" else None


def random_grids(side: int, rows: int, seed: int) -> Tokens:
    """Return complete grids as int8, each from a search of its own; for side 4 distinct ones, at most all 288."""
    order = random.Random(seed)
    if side == 4:
        every = solve([BLANK] * 16, side, limit=1000)
        return torch.tensor(order.sample(every, min(rows, len(every))), dtype=torch.int8)
    grids = torch.tensor([random_grid(side, order) for _ in range(rows)])
    return augment(grids, None, starting_at(seed), side)[0].to(torch.int8)


def draw_given(x_0: Tokens, puzzle: Flags | None, generator: Generator, low: int, high: int, bare: float = 0) -> Flags:
    """Draw the given cells: their number is uniform on low..high, and every set of that many cells equally likely.

    Where there are puzzles, most rows are given theirs and 0..`EXTRA` cells more, so that their solution is unique; the
    share `bare` of them is given no more.
    """
    (batch, cells), device = x_0.shape, x_0.device
    count = low + draw_uniform_tokens(uniform((batch, 1), generator, device), high - low + 1)
    given = draw_permutations((batch, cells), generator, device) < count
    if puzzle is None:
        return given
    order = uniform((batch, cells), generator, device).masked_fill(puzzle, -1).argsort(-1).argsort(-1)
    extra = draw_uniform_tokens(uniform((batch, 1), generator, device), EXTRA + 1)
    unique = uniform((batch, 1), generator, device) < UNIQUE_SHARE
    if bare:
        extra = extra.masked_fill(uniform((batch, 1), generator, device) < bare, 0)
    return torch.where(unique, order < puzzle.sum(1, keepdim=True) + extra, given)


def _held_out(classes: Sequence[Hashable], fraction: float, seed: int) -> Int[Tensor, "rows"]:
    """Hold out whole classes in random order, each that brings the share nearer to `fraction`; else the smallest."""
    members = defaultdict[Hashable, list[int]](list)
    for row, key in enumerate(classes):
        members[key].append(row)
    groups, held, total = list(members.values()), list[int](), len(classes)
    if len(groups) < 2:
        raise ValueError(f"none of the {total} grids can be held out, as all may be equal up to symmetry; add others")
    wanted = max(1, round(fraction * total))
    for index in np.random.default_rng(seed).permutation(len(groups)):
        size = len(groups[index])
        if size < 2 * (wanted - len(held)) and len(held) + size < total:
            held += groups[index]
    return torch.tensor(sorted(held or min(groups, key=len)))
