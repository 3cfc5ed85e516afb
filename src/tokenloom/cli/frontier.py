"""`tokenloom frontier`: generative perplexity against entropy, over settings and models, resumable."""

import math
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from tokenloom.cli.ranks import check_workers, ranks, spread
from tokenloom.cli.registry import COMMANDS
from tokenloom.evaluation.frontier import Sweep, curves, data_entropy, matched, warnings, write_table
from tokenloom.evaluation.plots import INK, canvas, line_style
from tokenloom.evaluation.points import Record, check_points, evaluate_point, run_points
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.files import replacing
from tokenloom.support.words import counted

AXES = ("unigram entropy of a sample, nats", "generative perplexity")


@COMMANDS.register("frontier")
def frontier(
    sweep: Annotated[Sweep, tyro.conf.arg(name="")],
    out: Path = Path("frontier"),
    workers: int = 1,
    cluster: Literal["local", "slurm"] = "local",
) -> None:
    """Sweep settings; every point is judged, kept, drawn and compared at the entropy of the data.

    Args:
        out: Where points, tables and pictures go; a sweep that was killed resumes from here.
        workers: Processes (or Slurm jobs) to spread the points over.
        cluster: Where the processes run.
    """
    check_workers(workers, cluster)
    mine = ranks()
    points, console = sweep.points(), Console(quiet=not mine.first)
    display = Display(Console(stderr=True, quiet=not mine.first))
    with display.status("loading"):
        check_points(points)
        missing = [point for point in points if not point.file(out).is_file()]
    known = f"{len(points) - len(missing)} of them already in {out}"
    console.print(f"{counted(len(points), 'point')}, {known}", highlight=False)
    records: list[Record] = []
    with mine.together(), display.status(f"judging {counted(len(points), 'point')}"):
        if mine.count > 1:
            run_points(points[mine.rank :: mine.count], out)
            mine.wait()
        elif workers > 1 or cluster == "slurm":
            spread(partial(run_points, folder=out), missing, out / "jobs", workers, cluster)
        for done, point in enumerate(points, 1):
            records.append(evaluate_point(point, out))
            display.update(f"point {done} of {len(points)}: {point.family}", done / len(points))
    if not mine.first:
        return
    write_table(records, out)
    report(records, console)
    written = "frontier.csv, .json"
    for ending, library, draw in ((".png", "matplotlib", draw_png), (".html", "plotly", draw_html)):
        if find_spec(library) is None:
            console.print(
                f'no frontier{ending}: it needs pip install "tokenloom[evaluate]"', highlight=False, markup=False
            )
            continue
        draw(records, (out / "frontier").with_suffix(ending))
        written += f", {ending}"
    console.print(f"{out}/{written}", style="dim", highlight=False, markup=False)


def report(records: list[Record], console: Console) -> None:
    """Print the comparison at matched entropy, and what to beware of."""
    for record in records:
        if record["source"] != "model":
            figures = f"perplexity {record['perplexity']:.1f}, entropy {record['entropy']:.3f}"
            console.print(f"{record['source']} ({record['data']}): {figures}", highlight=False, markup=False)
    title = f"Judged by {records[0]['judge']}, {counted(records[-1]['samples'], 'sample')} per point"
    names = (f"perplexity at the data's entropy {data_entropy(records):.2f}", "lowest")
    columns = (Column(name, justify="right") for name in names)
    table = Table(Column("curve", overflow="fold"), *columns, title=title, title_justify="left")
    for family, at_data, lowest in matched(records):
        table.add_row(escape(family), "not reached" if at_data is None else f"{at_data:.1f}", f"{lowest:.1f}")
    console.print(table)
    for sentence in warnings(records):
        console.print(f"[yellow]beware:[/] {escape(sentence)}", highlight=False)


def draw_png(records: Sequence[Record], path: Path) -> None:
    """Draw perplexity (logarithmic) against entropy; the data is the star, its entropy the vertical line."""
    with canvas(path, 1, 1, 7.6, 5.6) as (_, grid):
        axes = grid[0][0]
        for number, (family, members) in enumerate(curves(records).items()):
            x, y, x_error = ([record[key] for record in members] for key in ("entropy", "perplexity", "entropy_error"))
            y_error = [record["perplexity"] * record["nats_error"] for record in members]
            style = {"marker": "o", "markersize": 4, "linewidth": 1.5, "elinewidth": 0.8} | line_style(number)
            axes.errorbar(x, y, xerr=x_error, yerr=y_error, label=family, **style)
        axes.axvline(data_entropy(records), color=INK, linewidth=0.9, linestyle="--")
        marks = {"data": ("*", 11, "held-out data"), "shuffled data": ("x", 7, "data, shuffled")}
        for record in (record for record in records if record["source"] in marks):
            mark, size, label = marks[record["source"]]
            axes.plot(record["entropy"], record["perplexity"], mark, color=INK, markersize=size, label=label)
        finite = any(math.isfinite(record["perplexity"]) for record in records)  # without any there is no logarithm
        axes.set(
            xlabel=AXES[0],
            ylabel=AXES[1],
            yscale="log" if finite else "linear",
            title=f"Judged by {records[0]['judge']}",
        )
        plain = optional("matplotlib.ticker", "evaluate").StrMethodFormatter("{x:g}")
        axes.yaxis.set_major_formatter(plain)
        axes.yaxis.set_minor_formatter(plain)
        axes.tick_params(axis="y", which="minor", labelsize=7.5)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=8)


def draw_html(records: Sequence[Record], path: Path) -> None:
    """Draw the same with plotly; a point under the pointer shows its settings."""
    figure = optional("plotly.graph_objects", "evaluate").Figure()
    groups = {**curves(records), **{record["source"]: [record] for record in records if record["source"] != "model"}}
    hover = "%{text}<br>entropy %{x:.3f}<br>perplexity %{y:.2f}<extra></extra>"
    for family, members in groups.items():
        x, y = ([record[key] for record in members] for key in ("entropy", "perplexity"))
        about = [_about(record) for record in members]
        figure.add_scatter(x=x, y=y, mode="lines+markers", name=family, text=about, hovertemplate=hover)
    figure.add_vline(x=data_entropy(records), line_dash="dash", line_width=1)
    figure.update_layout(template="plotly_white", xaxis_title=AXES[0], yaxis_title=AXES[1], yaxis_type="log")
    with replacing(path) as partial:
        figure.write_html(partial, include_plotlyjs=True)


def _about(record: Record) -> str:
    return (
        f"{record['family']}<br>temperature {record['temperature']:g}, top-p {record['top_p']:g} on {record['on']}, "
        f"seed {record['seed']}<br>{record['samples']} samples, {record['evaluations']:.0f} evaluations, "
        f"{record['seconds_per_sample']:.2f} s per sample"
    )
