"""`tokenloom evaluate MODEL --tasks ...`: tasks of the language-model evaluation harness."""

from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from tokenloom.evaluation.harness import HarnessOptions, TaskReport, evaluate_tasks
from tokenloom.models.opening import open_runs
from tokenloom.support.files import check_writable, write_json


def evaluate_on_tasks(
    runs: Annotated[tuple[str, ...], tyro.conf.Positional],
    tasks: tuple[str, ...],
    options: Annotated[HarnessOptions, tyro.conf.arg(name="")] = HarnessOptions(),  # noqa: B008
    limit: int | None = None,
    out: str | None = None,
) -> None:
    """Run tasks of the language-model evaluation harness (lm_eval) on models."""
    opened = open_runs(runs)
    folders = [run.results if out is None else Path(out) for run in opened]
    for folder in folders:
        check_writable(folder)
    console, live = Console(), Console(stderr=True)
    for run, folder in zip(opened, folders, strict=True):
        with live.status(f"{run.name} answers"):
            report = evaluate_tasks(run.model, tasks, options, limit=limit)
        console.print(_table(run.name, report))
        for note in report.notes:
            console.print(note, highlight=False)
        record = {"provenance": run.provenance()} | report.record()
        path = write_json(folder / f"harness-{run.name.replace('/', '-')}.json", record)
        console.print(f"[dim]{path}[/]", highlight=False, soft_wrap=True)


def _table(name: str, report: TaskReport) -> Table:
    table = Table("task", "metric", "value", "standard error", title=name, title_justify="left")
    for figure in report.figures:
        error = "-" if figure.standard_error is None else f"{figure.standard_error:.4f}"
        table.add_row(figure.task, figure.metric, f"{figure.value:.4f}", error)
    return table
