"""`tokenloom frontier`: generative perplexity against entropy, over settings and models, resumable."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from tokenloom.cli.ranks import ranks
from tokenloom.cli.registry import COMMANDS
from tokenloom.evaluation.frontier import (
    Record,
    Sweep,
    data_entropy,
    matched,
    run_points,
    submit_points,
    warnings,
    write_table,
)
from tokenloom.evaluation.frontier_plots import draw_html, draw_png
from tokenloom.evaluation.points import check_points
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.words import counted


@COMMANDS.register("frontier")
def frontier(
    sweep: Annotated[Sweep, tyro.conf.arg(name="")],
    out: Path = Path("frontier"),
    workers: int = 1,
    cluster: Literal["local", "slurm"] = "local",
) -> None:
    """Sweep settings; every point is judged, kept, drawn and compared at the entropy of the data.

    Args:
        sweep: The settings.
        out: Where points, tables and pictures go; a sweep that was killed resumes from here.
        workers: Processes (or Slurm jobs) to spread the points over.
        cluster: Where the processes run.
    """
    if workers < 1:
        raise ValueError(f"--workers must be at least 1, got {workers}")
    for library in ("matplotlib", "plotly"):
        optional(library, "evaluate")
    mine = ranks()
    points, console = sweep.points(), Console(quiet=not mine.first)
    display = Display(Console(file=sys.stderr, quiet=not mine.first))
    with display.status("loading"):
        check_points(points)
        done = sum(point.file(out).is_file() for point in points)
    console.print(f"{counted(len(points), 'point')}, {done} of them already in {out}", highlight=False)
    with mine.together(), display.status(f"judging {counted(len(points), 'point')}"):
        if mine.count > 1:
            run_points(points[mine.rank :: mine.count], out)
            mine.wait()
        elif workers > 1 or cluster == "slurm":
            for job in submit_points(points, out, workers, cluster):
                job.result()
        judged: list[Record] = []

        def show(record: Record) -> None:
            judged.append(record)
            display.update(f"point {len(judged)} of {len(points)}: {record['family']}", len(judged) / len(points))

        records = run_points(points, out, show)
    if not mine.first:
        return
    write_table(records, out)
    draw_png(records, out / "frontier.png")
    draw_html(records, out / "frontier.html")
    report(records, console)
    console.print(f"[dim]{out}/frontier.csv, .json, .png, .html[/]", highlight=False)


def report(records: list[Record], console: Console) -> None:
    """Print the comparison at matched entropy, and what to beware of."""
    for record in records:
        if record["source"] != "model":
            figures = f"perplexity {record['perplexity']:.1f}, entropy {record['entropy']:.3f}"
            console.print(f"{record['source']} ({record['data']}): {figures}", highlight=False)
    title = f"Judged by {records[0]['judge']}, {counted(records[-1]['samples'], 'sample')} per point"
    table = Table(title=title, title_justify="left")
    table.add_column("curve", overflow="fold")
    for column in (f"perplexity at the data's entropy {data_entropy(records):.2f}", "lowest"):
        table.add_column(column, justify="right")
    for family, at_data, lowest in matched(records):
        table.add_row(family, "not reached" if at_data is None else f"{at_data:.1f}", f"{lowest:.1f}")
    console.print(table)
    for sentence in warnings(records):
        console.print(f"[yellow]beware:[/] {sentence}", highlight=False)
