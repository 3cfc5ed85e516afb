r"""`tokenloom evaluate RUN --task sudoku`: solve rates over steps and samplers, as a table, a picture and JSON.

A puzzle is solved if the filled grid obeys all rules and keeps the givens; cell accuracy is the share of blank cells
that agree with the (unique) solution, and violations are the rules that a grid violates, on average, which tell apart
samplers that solve nothing.  The interval is Wilson's, 95%, over all n m tries, with n repeats of m puzzles:
repeats of a puzzle are not independent of each other, so it is the spread of *this* set of puzzles.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tokenloom.evaluation.plots import canvas, line_style
from tokenloom.evaluation.tasks import EvaluationTask
from tokenloom.models.opening import Run, open_runs
from tokenloom.models.protocol import Model
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.puzzles import Puzzles, unique_puzzles, violations
from tokenloom.sudoku.solving import Outcome, Solver, solve_puzzles
from tokenloom.sudoku.text import read_puzzles
from tokenloom.support.checks import check_least
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.files import check_writable, write_json
from tokenloom.support.words import counted

GIVENS = {4: (5, 8), 6: (10, 14), 9: (31, 37)}
"""Fewest and most givens of generated puzzles by default, for each side."""
BATCH = 64
Z = 1.96
"""Standard errors on either side of a 95% interval."""


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
    violations: float
    """The mean number of violated rules per grid, 0 if all are solved (`puzzles.violations`)."""
    evaluations: float
    seconds_per_puzzle: float
    by_givens: dict[int, tuple[float, int]]
    """Solve rate and number of puzzles for each number of givens."""
    by_difficulty: dict[int, tuple[float, int]]
    """The same for each difficulty: 0 where singles suffice, else the depth that logic must look (`difficulty.py`)."""
    by_puzzle: tuple[float, ...]
    """The solve rate of each puzzle, for comparisons puzzle by puzzle."""

    @property
    def error(self) -> float:
        """The standard error that the interval amounts to: above 0 even where all or none are solved."""
        return (self.high - self.low) / (2 * Z)

    @property
    def seconds(self) -> float:
        """Seconds of all tries."""
        return self.seconds_per_puzzle * self.puzzles * self.repeats


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return Wilson's interval of a proportion."""
    share, shrink = hits / trials, 1 + Z * Z / trials
    middle = (share + Z * Z / (2 * trials)) / shrink
    half = Z / shrink * math.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials))
    return max(0.0, middle - half), min(1.0, middle + half)


def solve_rate(
    name: str,
    model: Model,
    puzzles: Puzzles,
    sampling: SamplerOptions,
    repeats: int = 1,
    seed: int = 0,
    advance: Callable[[float], None] = lambda share: None,
) -> SolveRate:
    """Try every puzzle `repeats` times, each time once; `advance` is called with the share of tries that are made."""
    truth, sampler, start = puzzles.solutions.long(), sampling.sampler_value(), time.perf_counter()
    trials, found = len(truth) * repeats, list[Outcome]()

    def drawn(outcomes: Sequence[Outcome]) -> None:
        advance((len(found) + sum(outcome.tries for outcome in outcomes)) / trials)

    for repeat in range(repeats):
        solver = Solver(sampler, tries=1, seed=seed + repeat, batch=BATCH)
        found += solve_puzzles(model, puzzles.posed, solver, on_drawn=drawn)
    grids = torch.tensor([outcome.grid for outcome in found]).view(repeats, *truth.shape)
    hits = torch.tensor([outcome.solved for outcome in found]).view(repeats, -1)
    right = (grids == truth)[(~puzzles.given).expand_as(grids)]
    broken = violations(grids.view(trials, -1), puzzles.side).double().mean()
    rates = (float(hits.double().mean()), *wilson(int(hits.sum()), trials), float(right.double().mean()), float(broken))
    costs = sum(outcome.evaluations for outcome in found) / trials, (time.perf_counter() - start) / trials
    kinds = _by(puzzles.given.sum(1), hits), _by(puzzles.difficulty, hits)
    each = tuple(hits.double().mean(0).tolist())
    return SolveRate(name, sampling.kernels, sampling.steps, len(truth), repeats, *rates, *costs, *kinds, each)


def _by(kind: Int[Tensor, "puzzles"], hits: Bool[Tensor, "repeats puzzles"]) -> dict[int, tuple[float, int]]:
    parts = {number: hits[:, kind == number] for number in sorted(set(kind.tolist()))}
    return {number: (float(part.double().mean()), part.shape[1]) for number, part in parts.items()}


@dataclass(frozen=True)
class SudokuTask(EvaluationTask):
    """Solve the same puzzles with every run, sampler and number of steps, one try each."""

    puzzles: Path | None = None
    """A CSV file with quizzes,solutions; by default puzzles with one solution are generated."""
    count: int = 200
    """Puzzles to solve."""
    givens: tuple[int, int] | None = None
    """Fewest and most givens of generated puzzles; by default 31 37 for side 9, 10 14 for side 6, 5 8 for side 4."""
    minimal: bool = False
    """Generate puzzles that cannot lose a given, the hardest of their grids, with any number of givens by default."""
    steps: tuple[int, ...] = (16, 32, 64, 128)
    """Network evaluations per grid."""
    samplers: tuple[str, ...] = ("ancestral",)
    """Each is used with the runs whose process it supports."""
    correctors: tuple[str, ...] = ("none",)
    """As in informed:steps=1,parallel=4; `none` is without. Each is used with the runs whose process it supports."""
    repeats: int = 1
    """Draws of every puzzle."""
    seed: int = 0

    def run(self, runs: Sequence[str], out: str | None) -> None:
        _check(self)
        opened = open_runs(list(runs), "ema")
        folder = opened[0].results if out is None else Path(out)
        check_writable(folder)
        optional("matplotlib", "evaluate")
        settings = [(run, setting) for run in opened for setting in _supported(run, self)]
        for run, setting in settings:
            setting.check_memory(run.model, self.count * self.repeats, BATCH)
            setting.sampler_value()  # raises for a budget that is too small for its corrector
        found: list[SolveRate] = []
        console, display = Console(markup=False), Display()
        with display.status(f"finding {counted(self.count, 'puzzle')}"):
            puzzles = _puzzles(self, opened)
            for number, (run, setting) in enumerate(settings):
                what = f"{run.name}, {setting.kernels}, {counted(setting.steps, 'step')}"
                advance = display.part(what, number, len(settings))
                advance(0)
                found.append(solve_rate(run.name, run.model, puzzles, setting, self.repeats, self.seed, advance))
                record = {
                    "provenance": [run.provenance() for run in opened],
                    "task": asdict(self) | {"puzzles": None if self.puzzles is None else self.puzzles.name},
                    "results": [asdict(item) for item in found],
                }
                write_json(folder / "sudoku.json", record)  # after every setting: it survives an interruption
        draw_solving(found, folder / "sudoku.png")
        for table in tables(found):
            console.print(table)
        written = f"{folder / 'sudoku.json'}, sudoku.png"
        console.print(written, style="dim", highlight=False, soft_wrap=True)


def _supported(run: Run, task: SudokuTask) -> list[SamplerOptions]:
    """Return the settings that can run this model; raise if no sampler or no corrector does."""
    samplers = {text: PREDICTORS.parse(text) for text in task.samplers}
    correctors = {text: CORRECTORS.parse(text) for text in task.correctors if text != "none"}
    able = [text for text, kernel in samplers.items() if kernel.supports(run.model.process)]
    beside = [text for text in task.correctors if text == "none" or correctors[text].supports(run.model.process)]
    if not able:
        samplers[task.samplers[0]].check(run.model)
    if not beside:
        correctors[task.correctors[0]].check(run.model)
    return [SamplerOptions(steps, name, other) for name in able for other in beside for steps in task.steps]


def _check(task: SudokuTask) -> None:
    check_least(task, count=1, repeats=1)
    for name in ("steps", "samplers", "correctors"):
        if not getattr(task, name):
            raise ValueError(f"--sudoku.{name} needs at least one value")
    if task.puzzles is not None and (task.minimal or task.givens is not None):
        conflict = f"minimal and givens choose among generated puzzles, but these come from {task.puzzles}"
        raise ValueError(f"{conflict}; leave one out")


def _puzzles(task: SudokuTask, runs: Sequence[Run]) -> Puzzles:
    """Generate puzzles, with random numbers of their own; or read them, and warn if they are those of a training."""
    side = runs[0].model.process.vocab_size
    if side not in GIVENS:
        raise ValueError(f"the model draws from {side} tokens, but a Sudoku has side 4, 6 or 9; name another run")
    if task.puzzles is None:
        usual = (0, side * side) if task.minimal else GIVENS[side]
        return unique_puzzles(task.count, task.givens or usual, task.seed, side, task.minimal)
    for run in runs:
        path = (run.model.about.source or {}).get("path")
        if path is not None and Path(path).resolve() == task.puzzles.resolve():
            said = f"{run.name} was trained on {task.puzzles}, so its solve rate there is not one of new puzzles"
            warnings.warn(said, stacklevel=2)
    return read_puzzles(task.puzzles, task.count)


def tables(found: Sequence[SolveRate]) -> Iterator[Table]:
    """Yield the tables of solve rates, one row per setting: of all puzzles, by givens and by difficulty."""
    title = f"Sudoku, {found[0].puzzles} puzzles x {found[0].repeats}: rules obeyed and givens kept"
    rows = []
    for item in found:
        interval = f"{100 * item.low:.1f}-{100 * item.high:.1f}"
        rates = (
            f"{100 * item.solve_rate:.1f}%",
            interval,
            f"{item.violations:.2f}",
            f"{100 * item.cell_accuracy:.2f}%",
        )
        rows.append((*rates, f"{item.evaluations:.1f}", f"{item.seconds_per_puzzle:.3f}"))
    yield _table(title, found, ("solved", "95%", "violations", "cells", "NFE", "s each"), rows)
    for what, by in (
        ("number of givens", [item.by_givens for item in found]),
        ("difficulty: how deep logic must look", [item.by_difficulty for item in found]),
    ):
        columns = [f"{number}\n({count})" for number, (_, count) in by[0].items()]
        shares = [[f"{100 * rate:.0f}" for rate, _ in rates.values()] for rates in by]
        yield _table(f"Solved in %, by {what} (of so many puzzles)", found, columns, shares)


def _table(title: str, found: Sequence[SolveRate], columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", no_wrap=True)
    table.add_column("sampler", overflow="fold")
    for column in ("steps", *columns):
        table.add_column(column, justify="right", no_wrap=True)
    for item, row in zip(found, rows, strict=True):
        table.add_row(item.run, item.sampler, str(item.steps), *row)
    return table


def draw_solving(found: Sequence[SolveRate], path: Path) -> None:
    """Draw solve rates against network evaluations, with intervals."""
    groups: dict[str, list[SolveRate]] = {}
    for item in sorted(found, key=lambda item: item.steps):
        groups.setdefault(f"{item.run}, {item.sampler}", []).append(item)
    with canvas(path, 1, 1, 7.6, 3.6) as (_, grid):
        axes = grid[0][0]
        for number, (label, items) in enumerate(groups.items()):
            steps = [item.steps * 1.012**number for item in items]  # a little aside, so that many lines fit
            rate, low, high = 100 * np.transpose([(item.solve_rate, item.low, item.high) for item in items])
            style = {"marker": "o", "markersize": 3.4, "elinewidth": 0.8} | line_style(number)
            axes.errorbar(steps, rate, abs(np.stack([low, high]) - rate), label=label, **style)
        title = f"% solved of {found[0].puzzles} Sudokus"
        axes.set(title=title, xscale="log", xlabel="network evaluations", ylim=(0, 102))
        ticks = sorted({item.steps for item in found})
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
