"""`tokenloom evaluate RUN --task sudoku`: solve rates over steps and samplers, as a table, a picture and JSON."""

import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tokenloom.evaluation.sizes import check_sampling
from tokenloom.evaluation.tasks import EvaluationTask
from tokenloom.models.opening import Run, open_runs
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS
from tokenloom.samplers.options import SamplerOptions
from tokenloom.sudoku.puzzles import Puzzles, unique_puzzles
from tokenloom.sudoku.solve_rates import BATCH, STEPS, SolveRate, draw_solving, solve_rate
from tokenloom.sudoku.text import read_puzzles
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.files import check_writable, write_json
from tokenloom.support.words import counted

GIVENS = {4: (5, 8), 6: (10, 14), 9: (31, 37)}
"""Fewest and most givens of generated puzzles by default, for each side."""


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
    steps: tuple[int, ...] = STEPS
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
        _warn_of_training_puzzles(self, opened)
        folder = Path(out) if out is not None else opened[0].results
        check_writable(folder)
        optional("matplotlib", "evaluate")
        settings = [(run, setting) for run in opened for setting in _supported(run, self)]
        for run, setting in settings:
            check_sampling(run.model, self.count * self.repeats, BATCH, setting.steps)
        found: list[SolveRate] = []
        console, display, done = Console(), Display(Console(file=sys.stderr)), 0
        with display.status(f"finding {counted(self.count, 'puzzle')}"):
            puzzles = _puzzles(self, opened[0].model.process.vocab_size)
            total = len(settings) * len(puzzles.solutions) * self.repeats
            for run, setting in settings:
                what = f"{run.name}, {setting.kernels}, {counted(setting.steps, 'step')}"

                def solved(count: int, what: str = what) -> None:
                    nonlocal done
                    done += count
                    display.update(what, done / total)

                solved(0)
                found.append(solve_rate(run.name, run.model, puzzles, setting, self.repeats, self.seed, solved))
                record = {
                    "provenance": [run.provenance() for run in opened],
                    "task": asdict(self) | {"puzzles": None if self.puzzles is None else self.puzzles.name},
                    "results": [asdict(item) for item in found],
                }
                write_json(folder / "sudoku.json", record)  # after every setting: it survives an interruption
        draw_solving(found, folder / "sudoku.png")
        console.print(solving_table(found))
        console.print(table_by("number of givens", found, [item.by_givens for item in found]))
        depths = [item.by_difficulty for item in found]
        console.print(table_by("difficulty: how deep logic must look", found, depths))
        console.print(f"[dim]{folder / 'sudoku.json'}, sudoku.png[/]", highlight=False, soft_wrap=True)


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
    for name in ("count", "repeats"):
        if getattr(task, name) < 1:
            raise ValueError(f"--sudoku.{name} must be at least 1, got {getattr(task, name)}")
    for name in ("steps", "samplers", "correctors"):
        if not getattr(task, name):
            raise ValueError(f"--sudoku.{name} needs at least one value")
    if task.puzzles is not None and (task.minimal or task.givens is not None):
        raise ValueError(
            "--sudoku.minimal and --sudoku.givens choose among generated puzzles, but these come from "
            f"{task.puzzles}; leave one of the two out"
        )


def _warn_of_training_puzzles(task: SudokuTask, runs: Sequence[Run]) -> None:
    """Warn if the puzzles are those of the training; generated ones have random numbers of their own."""
    for run in runs:
        path = (run.model.about.source or {}).get("path")
        if path is not None and task.puzzles is not None and Path(path).resolve() == task.puzzles.resolve():
            warnings.warn(
                f"{run.name} was trained on {task.puzzles}, so its solve rate there is not one of new puzzles",
                stacklevel=2,
            )


def _puzzles(task: SudokuTask, side: int) -> Puzzles:
    if side not in GIVENS:
        raise ValueError(
            f"the model draws from {side} tokens, which is not a Sudoku of side 4, 6 or 9; name another run"
        )
    if task.puzzles is not None:
        return read_puzzles(task.puzzles, task.count)
    usual = (0, side * side) if task.minimal else GIVENS[side]
    return unique_puzzles(task.count, task.givens or usual, task.seed, side, task.minimal)


def solving_table(found: Sequence[SolveRate]) -> Table:
    """Return a table of solve rates, one row per setting."""
    title = f"Sudoku, {found[0].puzzles} puzzles x {found[0].repeats}: rules obeyed and givens kept"
    rows = []
    for item in found:
        interval = f"{100 * item.low:.1f}-{100 * item.high:.1f}"
        rates = (f"{100 * item.solve_rate:.1f}%", interval, f"{100 * item.cell_accuracy:.2f}%")
        rows.append((*rates, f"{item.evaluations:.1f}", f"{item.seconds_per_puzzle:.3f}"))
    return _table(title, found, ("solved", "95%", "cells", "NFE", "s each"), rows)


def table_by(what: str, found: Sequence[SolveRate], by: Sequence[dict[int, tuple[float, int]]]) -> Table:
    """Return a table of solve rates by a property of the puzzles, which are the same in every row."""
    columns = [f"{number}\n({count})" for number, (_, count) in by[0].items()]
    rows = [[f"{100 * rate:.0f}" for rate, _ in rates.values()] for rates in by]
    return _table(f"Solved in %, by {what} (of so many puzzles)", found, columns, rows)


def _table(title: str, found: Sequence[SolveRate], columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("run", no_wrap=True)
    table.add_column("sampler", overflow="fold")
    for column in ("steps", *columns):
        table.add_column(column, justify="right", no_wrap=True)
    for item, row in zip(found, rows, strict=True):
        table.add_row(item.run, item.sampler, str(item.steps), *row)
    return table
