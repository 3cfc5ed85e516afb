r"""The difficulty of a Sudoku: the steps of the longest refutation that logic cannot do without.

    a step of singles:   a cell with one candidate takes it from its row, column and box, and a digit with one place in
                         one of them goes there, everywhere at once.  A cell without candidate or a digit without place
                         is a contradiction.
    a trial of depth d:  a candidate is assumed, and removed if d steps of singles end in a contradiction.

The difficulty is the least d such that singles and trials of depth d solve the puzzle; 0 needs no trial, as most
puzzles in newspapers.  Steps and trials are monotone in the candidates: what they end in does not depend on an order,
and a puzzle and its images under the symmetries are equally difficult.

A cell is an int64 with four bits for each digit, 1 for a candidate.  In arrays [band, row in it, stack, column in it,
puzzle] the sum over the two axes of a row, a column or a box then counts the places of every digit, in all puzzles.
"""

import hashlib
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int, Int64
from torch import Tensor

from tokenloom.data.token_cache import cached_rows, digest
from tokenloom.sudoku.solver import BLANK, box_shape
from tokenloom.support.files import default_cache
from tokenloom.types import Tokens

DEEP = 10
"""The difficulty of puzzles that shorter trials do not solve: they need trials within trials, or have no or several
solutions."""

CHUNK = 32
"""Puzzles that are worked on at once: their trials are a few thousand grids, which stay in a processor's cache."""

UNITS = ((2, 3), (0, 1), (1, 3))
"""The axes over which the cells of a row, a column and a box extend."""

CELL = (0, 1, 2, 3)

Candidates = Int64[np.ndarray, "bands height stacks width puzzles"]


def difficulty(puzzles: Tokens, side: int) -> Int[Tensor, "puzzles"]:
    """Rate each puzzle, 0..`DEEP`; puzzles [puzzles, cells] hold digits minus one, and -1 for a blank."""
    height, width = box_shape(side)
    if puzzles.shape[1] != side * side:
        raise ValueError(f"a puzzle of side {side} has {side * side} cells, got {puzzles.shape[1]}")
    if len(puzzles) and not BLANK <= int(puzzles.min()) <= int(puzzles.max()) < side:
        raise ValueError(f"cells hold 0..{side - 1}, or {BLANK} for a blank, got {int(puzzles.min())} or more")
    digits = puzzles.T.cpu().numpy().astype(np.int64)
    cells = np.where(digits == BLANK, _every(side), 1 << 4 * np.maximum(digits, 0))
    grids = cells.reshape(side // height, height, side // width, width, -1)
    chunks = [_rate(grids[..., first : first + CHUNK]) for first in range(0, len(puzzles), CHUNK)]
    return torch.from_numpy(np.concatenate([np.zeros(0, np.int64), *chunks]))


def cached_difficulty(puzzles: Tokens, side: int, cache: Path | None = None) -> Int[Tensor, "puzzles"]:
    """Rate each puzzle, or take it from the cache, where it is kept under the puzzles' checksum."""
    content = hashlib.sha256(puzzles.to(torch.int8).contiguous().numpy().tobytes()).hexdigest()
    key = digest("difficulty of sudoku puzzles", side, DEEP, content)
    rows = cached_rows(cache or default_cache(), key, 1, lambda: [difficulty(puzzles, side).int().numpy()[:, None]])
    return rows[:, 0].long()


def hard_rows(rated: Int[Tensor, "puzzles"], share: float, seed: int) -> Int[Tensor, "puzzles"]:
    """Draw as many rows as there are, of which `share` are beyond singles, each in proportion to its difficulty.

    Every row occurs as often as its expected number, rounded up or down, so that no more are lost than must be.
    """
    count, beyond = len(rated), round(share * len(rated))
    draws = ((rated.double(), beyond, "need more than singles"), ((rated == 0).double(), count - beyond, "are easy"))
    generator, parts = np.random.default_rng(seed), []
    for weights, wanted, what in draws:
        if wanted and not weights.any():
            raise ValueError(f"hard is {share:g}, but none of the {count} training puzzles {what}; change hard or rows")
        ends = weights.cumsum(0) / weights.sum().clamp(min=1)
        places = (torch.arange(wanted) + generator.random()) / max(1, wanted)
        parts.append(torch.searchsorted(ends, places.to(ends), right=True).clamp(max=count - 1))
    return torch.cat(parts).sort().values


def _rate(grids: Candidates) -> Int[np.ndarray, "puzzles"]:
    """Rate puzzles by rounds of singles and trials, each puzzle no deeper than it must."""
    count = grids.shape[-1]
    found, open_ones, depth = np.full(count, DEEP), np.arange(count), np.zeros(count, np.int64)
    while len(open_ones):
        while ((after := _singles(grids)) != grids).any():
            grids = after
        solved = _single(grids).all(CELL)
        found[open_ones[solved]] = depth[solved]
        after, depth = _after_trials(grids, depth)
        moved = (after != grids).any(CELL)  # not where a puzzle is solved, contradictory or beyond trials
        grids, depth, open_ones = after[..., moved], depth[moved], open_ones[moved]
    return found.clip(max=DEEP)


def _after_trials(grids: Candidates, depth: Int[np.ndarray, "puzzles"]) -> tuple[Candidates, np.ndarray]:
    """Try every open candidate alone, `depth` steps and then until one is refuted; return the rest and the depth."""
    side = grids.shape[0] * grids.shape[1]
    left, bit = grids.reshape(side * side, -1).copy(), 1 << 4 * np.arange(side)
    digit, cell, puzzle = ((left & bit[:, None, None] != 0) & ~_single(left)).nonzero()
    trial, now = np.arange(len(cell)), left[:, puzzle]
    now[cell, trial] = bit[digit]
    now, first, step = now.reshape(*grids.shape[:-1], -1), np.zeros(len(depth), np.int64), 0
    while len(trial):
        step += 1
        after = _singles(now)
        holds, changed = after.all(CELL), (after != now).any(CELL)
        refuted = trial[~holds]
        hit = puzzle[refuted]
        np.bitwise_and.at(left, (cell[refuted], hit), ~bit[digit[refuted]])
        first[hit] = np.where(first[hit] == 0, step, first[hit])
        done = (first > 0) & (step >= depth)
        going = holds & changed & ~done[puzzle[trial]]
        trial, now = trial[going], after[..., going]
    return left.reshape(grids.shape), np.maximum(depth, first)


def _singles(grids: Candidates) -> Candidates:
    """Take one step of singles everywhere at once; a grid with a contradiction is left without candidates."""
    every = _every(grids.shape[0] * grids.shape[1])
    alone = np.where(_single(grids), grids, 0)
    taken, forced, broken = np.zeros_like(grids), np.zeros_like(grids), np.zeros(grids.shape[-1], bool)
    for axes in UNITS:
        places = grids.sum(axes, keepdims=True)
        broken |= (_counted(places) != every).any(CELL)
        forced |= grids & ~_counted(places & ~every)  # without its lowest bit a count of one is zero
        taken |= _counted(alone.sum(axes, keepdims=True) - alone)
    left: Candidates = grids & ~taken
    left &= np.where(forced == 0, every, np.where(_single(forced), forced, 0))
    broken |= ~left.all(CELL)
    left[..., broken] = 0
    return left


def _counted(counts: Candidates) -> Candidates:
    """Return 1 for each digit whose four bits are not zero."""
    pairs = counts | counts >> 2
    found: Candidates = (pairs | pairs >> 1) & _every(9)
    return found


def _every(side: int) -> int:
    """Return a cell with every candidate: 1 for each digit."""
    return ((1 << 4 * side) - 1) // 15


def _single(values: Int64[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """Return whether exactly one bit is set."""
    single: np.ndarray = (values & (values - 1) == 0) & (values != 0)
    return single
