"""`tokenloom evaluate RUN --task sudoku`: solve rates over steps and samplers, as a table, a picture and JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tokenloom.data.sudoku_puzzles import Puzzles, read_puzzles, unique_puzzles
from tokenloom.evaluation.records import check_writable, write_json
from tokenloom.evaluation.runs import open_runs
from tokenloom.evaluation.sudoku import STEPS, Solving, draw_solving, solve_rate


@dataclass(frozen=True)
class SudokuTask:
    """Which puzzles, and how they are solved."""

    puzzles: Path | None = None
    """A CSV file with quizzes,solutions; by default puzzles with one solution are generated."""
    count: int = 200
    """Puzzles to solve."""
    givens: tuple[int, int] = (31, 37)
    """Fewest and most givens of generated puzzles of side 9."""
    steps: tuple[int, ...] = STEPS
    """Network evaluations a grid."""
    samplers: tuple[str, ...] = ("ancestral",)
    correctors: tuple[str, ...] = ("none",)
    """As in informed:steps=1,parallel=4; `none` is without."""
    repeats: int = 1
    """Draws of every puzzle."""
    seed: int = 0


def evaluate_sudoku(names: Sequence[str], task: SudokuTask, out: str | None) -> None:
    """Solve the same puzzles with every run, sampler and number of steps."""
    runs = open_runs(list(names), "ema")
    folder = Path(out) if out is not None else runs[0].results
    check_writable(folder)
    puzzles = _puzzles(task, runs[0].model.process.vocab_size)
    settings = [
        (run, sampler, None if corrector == "none" else corrector, steps)
        for run in runs
        for sampler in task.samplers
        for corrector in task.correctors
        for steps in task.steps
    ]
    found: list[Solving] = []
    console = Console()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("solving", total=len(settings) * len(puzzles.solutions) * task.repeats)
        for run, sampler, corrector, steps in settings:
            progress.update(bar, description=f"{run.name}, {sampler}, {steps} steps")
            solved = partial(progress.advance, bar)
            rate = solve_rate(run.name, run.model, puzzles, sampler, corrector, steps, task.repeats, task.seed, solved)
            found.append(rate)
            write_json(folder / "sudoku.json", _record(found, task))  # what is done survives an interruption
    draw_solving(found, folder / "sudoku.png")
    console.print(solving_table(found))
    console.print(givens_table(found))
    console.print(f"[dim]{folder / 'sudoku.json'}, sudoku.png[/]", highlight=False, soft_wrap=True)


def _puzzles(task: SudokuTask, side: int) -> Puzzles:
    if task.count < 1:
        raise ValueError(f"--sudoku.count must be at least 1, got {task.count}")
    if task.puzzles is not None:
        return read_puzzles(task.puzzles, task.count)
    return unique_puzzles(task.count, task.givens, task.seed, side)


def _record(found: Sequence[Solving], task: SudokuTask) -> dict[str, object]:
    options = asdict(task) | {"puzzles": None if task.puzzles is None else task.puzzles.name}
    return {"tokenloom": version("tokenloom"), "task": options, "results": [asdict(item) for item in found]}


def solving_table(found: Sequence[Solving]) -> Table:
    """One row a setting."""
    title = f"Sudoku, {found[0].puzzles} puzzles x {found[0].repeats}: rules obeyed and givens kept"
    table = Table(title=title, title_justify="left")
    for column in ("run", "sampler", "steps", "solved", "95%", "cells right", "evaluations", "s a puzzle"):
        table.add_column(column, justify="left" if column in ("run", "sampler") else "right", overflow="fold")
    for item in found:
        sampler = item.sampler if item.corrector is None else f"{item.sampler} + {item.corrector}"
        interval = f"{100 * item.low:.1f}-{100 * item.high:.1f}%"
        cells = f"{100 * item.cell_accuracy:.2f}%"
        figures = (f"{100 * item.solve_rate:.1f}%", interval, cells, f"{item.evaluations:.1f}")
        table.add_row(item.run, sampler, str(item.steps), *figures, f"{item.seconds_per_puzzle:.3f}")
    return table


def givens_table(found: Sequence[Solving]) -> Table:
    """Solve rate by number of givens."""
    table = Table(title="Solved, by number of givens (puzzles)", title_justify="left")
    table.add_column("givens", justify="right")
    for item in found:
        corrected = "" if item.corrector is None else " +"
        table.add_column(f"{item.run} {item.sampler}{corrected} {item.steps}", justify="right", overflow="fold")
    for number in found[0].by_givens:
        cells = [f"{100 * item.by_givens[number][0]:.0f}%" for item in found]
        table.add_row(f"{number} ({found[0].by_givens[number][1]})", *cells)
    return table
