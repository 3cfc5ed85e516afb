r"""The difficulty of a Sudoku: the steps of the longest refutation that logic cannot do without.

    a step of singles:   cells with one candidate and digits with one place, everywhere at once (`singles.py`).
    a trial of depth d:  a candidate is assumed, and removed if d steps of singles end in a contradiction.

The difficulty is the least d such that singles and trials of depth d solve the puzzle; 0 needs no trial, as most
puzzles in newspapers.  Steps and trials are monotone in the candidates: what they end in does not depend on an order,
and a puzzle and its images under the symmetries are equally difficult.
"""

import hashlib
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.data.token_cache import cached_rows, digest
from tokenloom.sudoku.singles import ONE, Candidates, candidates, single, singles
from tokenloom.sudoku.solver import BLANK, box_shape
from tokenloom.support.files import default_cache
from tokenloom.types import Tokens

DEEP = 10
"""The difficulty of puzzles that shorter trials do not solve: they need trials within trials, or have no or several
solutions."""

CHUNK = 32
"""Puzzles that are worked on at once: their trials are a few thousand grids, which stay in a processor's cache."""


def difficulty(puzzles: Tokens, side: int) -> Int[Tensor, "puzzles"]:
    """Rate each puzzle, 0..`DEEP`; puzzles [puzzles, cells] hold digits minus one, and -1 for a blank."""
    box_shape(side)  # raises for a side without boxes
    if puzzles.shape[1] != side * side:
        raise ValueError(f"a puzzle of side {side} has {side * side} cells, got {puzzles.shape[1]}")
    if len(puzzles) and not BLANK <= int(puzzles.min()) <= int(puzzles.max()) < side:
        raise ValueError(f"cells hold 0..{side - 1}, or {BLANK} for a blank, got {int(puzzles.min())} or more")
    grids = candidates(puzzles, side)
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
        while ((after := singles(grids)) != grids).any():
            grids = after
        solved = single(grids).all((0, 1))
        found[open_ones[solved]] = depth[solved]
        after, depth = _after_trials(grids, depth)
        moved = (after != grids).any((0, 1))  # not where a puzzle is solved, contradictory or beyond trials
        grids, depth, open_ones = after[..., moved], depth[moved], open_ones[moved]
    return found.clip(max=DEEP)


def _after_trials(grids: Candidates, depth: Int[np.ndarray, "puzzles"]) -> tuple[Candidates, np.ndarray]:
    """Try every open candidate alone, `depth` steps and then until one is refuted; return the rest and the depth."""
    side = grids.shape[0]
    left, bit = grids.reshape(side * side, -1).copy(), ONE << np.arange(side, dtype=np.uint16)
    digit, cell, puzzle = ((left & bit[:, None, None] != 0) & ~single(left)).nonzero()
    trial, now = np.arange(len(cell)), left[:, puzzle]
    now[cell, trial] = bit[digit]
    now, first, step = now.reshape(*grids.shape[:-1], -1), np.zeros(len(depth), np.int64), 0
    while len(trial):
        step += 1
        after = singles(now)
        holds, changed = after.all((0, 1)), (after != now).any((0, 1))
        refuted = trial[~holds]
        hit = puzzle[refuted]
        np.bitwise_and.at(left, (cell[refuted], hit), ~bit[digit[refuted]])
        first[hit] = np.where(first[hit] == 0, step, first[hit])
        done = (first > 0) & (step >= depth)
        going = holds & changed & ~done[puzzle[trial]]
        trial, now = trial[going], after[..., going]
    return left.reshape(grids.shape), np.maximum(depth, first)
