r"""Sudoku as a test of a sampler: the share of puzzles solved, over steps and samplers.

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
from jaxtyping import Bool, Int
from torch import Tensor

from tokenloom.evaluation.plots import bars, canvas
from tokenloom.models.protocol import Model
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.puzzles import Puzzles
from tokenloom.sudoku.solving import Solver, solve_puzzles

STEPS = (16, 32, 64, 128)
BATCH = 64


@dataclass(frozen=True)
class SolveRate:
    """The solve rate of a sampler on a set of puzzles, one try each."""

    run: str
    sampler: str
    steps: int
    puzzles: int
    repeats: int
    solve_rate: float
    low: float
    high: float
    cell_accuracy: float
    evaluations: float
    seconds_per_puzzle: float
    by_givens: dict[int, tuple[float, int]]
    """Solve rate and number of puzzles for each number of givens."""
    by_difficulty: dict[int, tuple[float, int]]
    """The same for each difficulty: 0 where singles suffice, else the depth that logic must look (`difficulty.py`)."""


def wilson(hits: int, trials: int, z: float = 1.96) -> tuple[float, float]:
    """Return Wilson's interval of a proportion."""
    share, shrink = hits / trials, 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def solve_rate(
    name: str,
    model: Model,
    puzzles: Puzzles,
    sampling: SamplerOptions,
    repeats: int = 1,
    seed: int = 0,
    advance: Callable[[int], None] = lambda count: None,
) -> SolveRate:
    """Try every puzzle `repeats` times, each time once."""
    if model.process.vocab_size != puzzles.side:
        raise ValueError(
            f"the model fills grids with {model.process.vocab_size} digits, but the puzzles have side {puzzles.side}"
        )
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    truth, sampler, start, found = puzzles.solutions.long(), sampling.sampler_value(), time.perf_counter(), []
    for repeat in range(repeats):
        for part in torch.split(puzzles.posed, BATCH):
            found += solve_puzzles(model, part, Solver(sampler, tries=1, seed=seed + repeat, batch=BATCH))
            advance(len(part))
    grids = torch.tensor([outcome.grid for outcome in found]).view(repeats, *truth.shape)
    hits = torch.tensor([outcome.solved for outcome in found]).view(repeats, -1)
    right = (grids == truth)[(~puzzles.given).expand_as(grids)]
    trials = hits.numel()
    return SolveRate(
        name,
        sampling.kernels,
        sampling.steps,
        len(truth),
        repeats,
        float(hits.double().mean()),
        *wilson(int(hits.sum()), trials),
        float(right.double().mean()),
        sum(outcome.evaluations for outcome in found) / trials,
        (time.perf_counter() - start) / trials,
        _by(puzzles.given.sum(1), hits),
        _by(puzzles.difficulty, hits),
    )


def _by(kind: Int[Tensor, "puzzles"], hits: Bool[Tensor, "repeats puzzles"]) -> dict[int, tuple[float, int]]:
    return {
        number: (float(hits[:, kind == number].double().mean()), int((kind == number).sum()))
        for number in sorted(set(kind.tolist()))
    }


def draw_solving(found: Sequence[SolveRate], path: Path) -> None:
    """Draw solve rates against network evaluations, with intervals."""
    groups: dict[str, list[SolveRate]] = {}
    for item in found:
        groups.setdefault(f"{item.run}, {item.sampler}", []).append(item)
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
