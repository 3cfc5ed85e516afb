"""`tokenloom frontier`: generative perplexity against entropy, over settings and models, resumable."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from tokenloom.cli.ranks import ranks
from tokenloom.cli.registry import COMMANDS
from tokenloom.evaluation.frontier import (
    STEPS,
    TOP_P,
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


@dataclass(frozen=True)
class FrontierConfig:
    """What to sweep."""

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders, model folders or names of bundled models."""
    judge: str = "smollm2"
    """smollm2, a Hugging Face folder, a GGUF file, a Hub name such as gpt2-large, an autoregressive run, or oracle."""
    samplers: tuple[str, ...] = ("ancestral",)
    """Samplers with options, as in psi:kappa=0.9."""
    correctors: tuple[str, ...] = ("none",)
    """Correctors with options, as in informed:steps=2,parallel=4; `none` is without."""
    steps: tuple[int, ...] = STEPS
    """Network evaluations per sample, the corrector's included."""
    top_p: tuple[float, ...] | None = None
    """By default the paper's grid, or 1 where temperatures are given."""
    temperature: tuple[float, ...] | None = None
    """By default 1."""
    on: Literal["loo", "denoiser"] = "loo"
    """The posterior that both act on."""
    seeds: tuple[int, ...] = (0,)
    num: int = 64
    """Samples per point."""
    data: str | None = None
    """Held-out data to compare with: a path, a Hub name or a kind such as markov; by default what the first run held
    out."""
    out: Path = Path("frontier")
    """Where points, tables and pictures go; a sweep that was killed resumes from here."""
    workers: int = 1
    """Processes (or Slurm jobs) to spread the points over."""
    cluster: Literal["local", "slurm"] = "local"


@COMMANDS.register("frontier")
def frontier(config: Annotated[FrontierConfig, tyro.conf.arg(name="")]) -> None:
    """Sweep settings; every point is judged, kept, drawn and compared at the entropy of the data."""
    if not config.runs:
        raise ValueError("name at least one run")
    if config.num < 2 or config.workers < 1:
        raise ValueError(f"--num must be at least 2 and --workers at least 1, got {config.num} and {config.workers}")
    top_ps = config.top_p or ((1.0,) if config.temperature else TOP_P)
    sweep = Sweep(
        config.runs,
        config.judge,
        config.samplers,
        config.correctors,
        config.steps,
        config.temperature or (1.0,),
        top_ps,
        config.on,
        config.seeds,
        config.num,
        config.data,
    )
    for library in ("matplotlib", "plotly"):
        optional(library, "evaluate")
    mine = ranks()
    points, console = sweep.points(), Console(quiet=not mine.first)
    display = Display(Console(file=sys.stderr, quiet=not mine.first))
    with display.status("loading"):
        check_points(points)
        done = sum(point.file(config.out).is_file() for point in points)
    console.print(f"{counted(len(points), 'point')}, {done} of them already in {config.out}", highlight=False)
    with mine.together(), display.status(f"judging {counted(len(points), 'point')}"):
        if mine.count > 1:
            run_points(points[mine.rank :: mine.count], config.out, lambda record: None)
            mine.wait()
        elif config.workers > 1 or config.cluster == "slurm":
            for job in submit_points(points, config.out, config.workers, config.cluster):
                job.result()
        judged: list[Record] = []

        def judge(record: Record) -> None:
            judged.append(record)
            display.update(f"point {len(judged)} of {len(points)}: {record['family']}", len(judged) / len(points))

        records = run_points(points, config.out, judge)
    if not mine.first:
        return
    write_table(records, config.out)
    draw_png(records, config.out / "frontier.png")
    draw_html(records, config.out / "frontier.html")
    report(records, console)
    console.print(f"[dim]{config.out}/frontier.csv, .json, .png, .html[/]", highlight=False)


def report(records: list[Record], console: Console) -> None:
    """The comparison at matched entropy, and what to beware of."""
    entropy = data_entropy(records)
    for record in records:
        if record["source"] != "model":
            figures = f"perplexity {record['perplexity']:.1f}, entropy {record['entropy']:.3f}"
            line = f"{record['source']} ({record['data']}): {figures}"
            console.print(line, highlight=False)
    table = Table(
        title=f"Judged by {records[0]['judge']}, {counted(records[-1]['samples'], 'sample')} per point",
        title_justify="left",
    )
    table.add_column("curve", overflow="fold")
    for column in (f"perplexity at the data's entropy{'' if entropy is None else f' {entropy:.2f}'}", "lowest"):
        table.add_column(column, justify="right")
    for family, at_data, lowest in matched(records):
        table.add_row(family, "not reached" if at_data is None else f"{at_data:.1f}", f"{lowest:.1f}")
    console.print(table)
    for sentence in warnings(records):
        console.print(f"[yellow]beware:[/] {sentence}", highlight=False)
