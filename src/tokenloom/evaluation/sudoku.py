r"""Sudoku as a test of a sampler: how many puzzles come out solved, over steps and samplers.

A puzzle counts as solved if the filled grid obeys all rules and keeps the givens; cell accuracy is the share of blank
cells that agree with the (unique) solution.  With n repeats over m puzzles the interval is Wilson's, 95%, over all
n m trials: repeats of a puzzle are not independent of each other, so it is the spread of *this* set of puzzles.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool
from torch import Tensor

from tokenloom.data.sudoku_puzzles import Puzzles, is_valid
from tokenloom.evaluation.plots import bars, canvas
from tokenloom.model import DiffusionModel
from tokenloom.randomness import RowGenerators, derive_seed
from tokenloom.samplers import run_sampler
from tokenloom.types import Tokens

STEPS = (16, 32, 64, 128)
BATCH = 64


@dataclass(frozen=True)
class Solving:
    """What a sampler reached on a set of puzzles."""

    run: str
    sampler: str
    corrector: str | None
    steps: int
    puzzles: int
    repeats: int
    solve_rate: float
    low: float
    high: float
    """Ends of the interval."""
    cell_accuracy: float
    evaluations: float
    seconds_per_puzzle: float
    by_givens: dict[int, tuple[float, int]]
    """Solve rate and number of puzzles for each number of givens."""


def is_solved(grids: Tokens, puzzles: Puzzles) -> Bool[Tensor, "batch"]:
    """Rules obeyed and givens kept."""
    if grids.shape != puzzles.solutions.shape:
        raise ValueError(f"grids must have shape {list(puzzles.solutions.shape)}, got {list(grids.shape)}")
    kept = (grids == puzzles.solutions.to(grids.dtype)) | ~puzzles.given
    return is_valid(grids, puzzles.side) & kept.all(1)


def wilson(hits: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a proportion."""
    share, shrink = hits / trials, 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def solve_rate(
    name: str,
    model: DiffusionModel,
    puzzles: Puzzles,
    sampler: str = "ancestral",
    corrector: str | None = None,
    steps: int = 32,
    repeats: int = 1,
    seed: int = 0,
    advance: Callable[[int], None] = lambda count: None,
) -> Solving:
    """Sample every puzzle `repeats` times."""
    if model.process.vocab_size != puzzles.side:
        raise ValueError(
            f"the model fills grids with {model.process.vocab_size} digits, but the puzzles have side {puzzles.side}"
        )
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    solved, cells, evaluations, start = [], [], 0, time.perf_counter()
    for repeat in range(repeats):
        for first in range(0, len(puzzles.solutions), BATCH):
            part = _part(puzzles, slice(first, first + BATCH))
            truth, size = part.solutions.long(), len(part.solutions)
            seeds = [derive_seed(seed, "puzzle", repeat, first + row) for row in range(size)]
            samples = run_sampler(
                model, size, truth.shape[1], steps, sampler, corrector, None, (truth, part.given), RowGenerators(seeds)
            )
            solved.append(is_solved(samples.tokens, part))
            cells.append((samples.tokens == truth)[~part.given].double().mean())
            evaluations += int(samples.evaluations.sum())
            advance(size)
    hits = torch.cat(solved).view(repeats, -1)
    trials = hits.numel()
    return Solving(
        name,
        sampler,
        corrector,
        steps,
        len(puzzles.solutions),
        repeats,
        float(hits.double().mean()),
        *wilson(int(hits.sum()), trials),
        float(torch.stack(cells).mean()),
        evaluations / trials,
        (time.perf_counter() - start) / trials,
        _by_givens(hits, puzzles),
    )


def _part(puzzles: Puzzles, rows: slice) -> Puzzles:
    return Puzzles(puzzles.side, puzzles.solutions[rows], puzzles.given[rows])


def _by_givens(hits: Bool[Tensor, "repeats puzzles"], puzzles: Puzzles) -> dict[int, tuple[float, int]]:
    count = puzzles.given.sum(1)
    return {
        number: (float(hits[:, count == number].double().mean()), int((count == number).sum()))
        for number in sorted(set(count.tolist()))
    }


def draw_solving(found: Sequence[Solving], path: Path) -> None:
    """Solve rate against network evaluations, with intervals."""
    groups: dict[str, list[Solving]] = {}
    for item in found:
        label = f"{item.run}, {item.sampler}" + ("" if item.corrector is None else f" + {item.corrector}")
        groups.setdefault(label, []).append(item)
    with canvas(path, 1, 1, 7.6, 3.6) as (_, grid):
        axes = grid[0][0]
        for number, (label, items) in enumerate(groups.items()):
            items.sort(key=lambda item: item.steps)
            rates = [100 * item.solve_rate for item in items]
            interval = [100 * item.low for item in items], [100 * item.high for item in items]
            bars(axes, [item.steps for item in items], rates, interval, label, number)
        axes.set(
            xscale="log", xlabel="network evaluations", ylim=(0, 102), title=f"% solved of {found[0].puzzles} Sudokus"
        )
        ticks = sorted({item.steps for item in found})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
