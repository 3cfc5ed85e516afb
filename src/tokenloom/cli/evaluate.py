"""`tokenloom evaluate`: the likelihood of held-out data, one row per checkpoint, one column per data set; or a task."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from tokenloom import __version__
from tokenloom.cli.harness_tasks import evaluate_on_tasks
from tokenloom.cli.ranks import Ranks, ranks
from tokenloom.cli.registry import COMMANDS, factory, read_ahead
from tokenloom.evaluation.causal_lm import CausalLM, is_causal_lm, load_causal_lm
from tokenloom.evaluation.held_out import Fingerprint
from tokenloom.evaluation.runs import Run, Weights, named, open_runs, placed
from tokenloom.evaluation.tasks import TASKS, EvaluationTask
from tokenloom.evaluation.zero_shot import Cell, Progress, Settings, score_language_model, score_run
from tokenloom.models.store import model_folder
from tokenloom.objectives.likelihood import Workers
from tokenloom.support.display import Display
from tokenloom.support.files import check_writable, write_json

Subject = Run | CausalLM
Results = dict[str, dict[str, Cell]]
"""Row name -> column name -> figure."""


@COMMANDS.register("evaluate")
@factory
def evaluate_command(args: Sequence[str]) -> Callable[..., None]:
    """The command, with the options of the task that the arguments name."""
    if "--tasks" in args:
        return evaluate_on_tasks
    task = read_ahead(args, "--task") or "likelihood"
    return evaluate if task == "likelihood" else _task_command(TASKS[task])


def evaluate(
    runs: Annotated[tuple[str, ...], tyro.conf.Positional],
    data: tuple[str, ...] = (),
    settings: Annotated[Settings, tyro.conf.arg(name="")] = Settings(),  # noqa: B008
    weights: Literal["ema", "raw", "both"] = "ema",
    process: tuple[str, ...] = (),
    compile: bool = False,
    out: str | None = None,
    task: str = "likelihood",
) -> None:
    """Measure the likelihood of held-out data under trained models (a bound; exact for autoregressive ones)."""
    mine = ranks()
    display = Display(Console(file=sys.stderr, quiet=not mine.first))
    with display.status("loading"):
        subjects = _subjects([named(run, part) for run in runs for part in process or (None,)], weights, compile)
    for folder in {_folder(subject, out) for subject in subjects}:
        check_writable(folder)
    if settings.length is None:
        settings = replace(settings, length=next((it.length for it in subjects if isinstance(it, Run)), None))
    with mine.together():
        _score_all(subjects, data, settings, out, display, mine)


def _task_command(kind: type[EvaluationTask]) -> Callable[..., None]:
    def evaluate(
        runs: Annotated[tuple[str, ...], tyro.conf.Positional],
        options: Annotated[Any, tyro.conf.arg(name=kind.name)] = kind(),  # noqa: B008
        process: tuple[str, ...] = (),
        task: str = kind.name,
        out: str | None = None,
    ) -> None:
        options.run([named(run, part) for run in runs for part in process or (None,)], out)

    evaluate.__annotations__["options"] = Annotated[kind, tyro.conf.arg(name=kind.name)]
    evaluate.__doc__ = f"""{(kind.__doc__ or "").strip()}

    Args:
        runs: Run or model folders, or names of bundled models.
        options: The task.
        process: Each run under each of these processes; for models trained with --method any.
        task: Which task this is.
        out: Folder for the figures; by default evaluation/ in the first run.
    """
    return evaluate


def _score_all(
    subjects: list[Subject], data: tuple[str, ...], settings: Settings, out: str | None, display: Display, mine: Ranks
) -> None:
    """Every figure is written as soon as it is known; the tables come at the end, all by the first process."""
    results: Results = {}
    written: list[Path] = []
    total = len(subjects) * max(1, len(data))
    with display.status("evaluating"):
        for subject in subjects:
            row = results.setdefault(row_name(subject), {})
            for source in data or (None,):
                what, done = f"{row_name(subject)} on {source or 'its own data'}", len(written)
                display.update(f"{what}: reading the data", done / total)
                cell = _score(subject, source, settings, partial(_show_share, display, what, done, total), mine)
                column = cell.data.name if source is None else column_name(source, data)
                row[column] = cell
                if mine.first:
                    written.append(_write(subject, column, cell, settings, out))
    console = Console(quiet=not mine.first)
    console.print(figures_table(results))
    console.print(data_table(results))
    for path in written:
        console.print(f"[dim]{path}[/]", highlight=False, soft_wrap=True)


def _subjects(names: Sequence[str], weights: Literal["ema", "raw", "both"], compiled: bool) -> list[Subject]:
    """Runs first, then language models; a name that is neither is refused as a run."""
    if not names:
        raise ValueError("name at least one run folder")
    models = [name for name in names if name == "smollm2" or (model_folder(name) is None and is_causal_lm(name))]
    kinds: tuple[Weights, ...] = ("ema", "raw") if weights == "both" else (weights,)
    paths = [name for name in names if name not in models]
    runs = [placed(run, compiled) for kind in kinds for run in open_runs(paths, kind)] if paths else []
    return [*runs, *(load_causal_lm(name) for name in models)]


def _show_share(display: Display, what: str, done: int, total: int, share: float) -> None:
    display.update(what, (done + share) / total)


def _score(subject: Subject, source: str | None, settings: Settings, on_progress: Progress, mine: Ranks) -> Cell:
    if isinstance(subject, Run):
        return score_run(subject, source, settings, on_progress, Workers(mine.rank, mine.count, mine.add))
    if source is None:
        raise ValueError(f"{subject.name} is a language model without data of its own; name the text with --data")
    return score_language_model(subject, source, settings, on_progress)


def row_name(subject: Subject) -> str:
    """A checkpoint: the run, its weights and its step."""
    if isinstance(subject, CausalLM):
        return f"{subject.name} (causal language model)"
    step = "" if subject.step is None else f", step {subject.step:,}"
    return f"{subject.name} ({subject.weights}{step})"


def column_name(source: str, sources: Sequence[str]) -> str:
    """The last parts of a path, as many as tell it from the other sources."""
    parts = Path(source).parts
    others = [Path(other).parts for other in sources if other != source]
    known = (count for count in range(1, len(parts)) if all(other[-count:] != parts[-count:] for other in others))
    return source if not Path(source).exists() else "/".join(parts[-next(known, len(parts)) :])


def _write(subject: Subject, column: str, cell: Cell, settings: Settings, out: str | None) -> Path:
    what = f"{subject.name}-{subject.weights}" if isinstance(subject, Run) else subject.name
    name = re.sub(r"[^\w.-]+", "-", f"likelihood-{what}-{column}")
    about = subject.provenance() if isinstance(subject, Run) else {"tokenloom": __version__, "model": subject.name}
    record = {"provenance": about, "settings": asdict(settings)} | cell.record()
    return write_json(_folder(subject, out) / f"{name}.json", record)


def _folder(subject: Subject, out: str | None) -> Path:
    return Path(out) if out is not None else subject.results if isinstance(subject, Run) else Path("evaluation")


def figures_table(results: Results) -> Table:
    """Nats per token, perplexity, and nats per character for text."""
    table = Table(title="Held-out likelihood: nats per token ± standard error", title_justify="left", show_lines=True)
    table.add_column("checkpoint", overflow="fold")
    columns = list(dict.fromkeys(name for row in results.values() for name in row))
    for name in columns:
        table.add_column(name, justify="right", overflow="fold")
    for name, row in results.items():
        table.add_row(name, *(_cell_text(row[column]) if column in row else "-" for column in columns))
    return table


def _cell_text(cell: Cell) -> str:
    figure = cell.likelihood
    lines = [f"{'' if figure.exact else '≤ '}{figure}", f"perplexity {figure.perplexity:,.2f}"]
    if cell.data.entropy is not None:
        lines.append(f"entropy {cell.data.entropy:.4f}")
    if cell.per_character is not None:
        lines.append(f"{cell.per_character:.4f} ± {cell.per_character_error:.4f} per character")
    return "\n".join(lines)


def data_table(results: Results) -> Table:
    """What exactly was scored, once for each different tokenisation."""
    table = Table(title="Data", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("data", "tokens", "rows", "packing", "tokenizer", "undone", "sha256"):
        side: Literal["left", "right"] = "right" if column in ("tokens", "rows") else "left"
        whole = column not in ("data", "tokenizer")
        table.add_column(column, overflow="fold", justify=side, no_wrap=whole, min_width=len(column))
    cells = [(name, cell) for row in results.values() for name, cell in row.items()]
    seen: dict[Fingerprint, tuple[str, int]] = {}
    for name, cell in cells:
        seen.setdefault(cell.data.fingerprint, (name, cell.likelihood.sequences))
    for mark, (name, scored) in seen.items():
        rows = f"{scored:,}/{mark.sequences:,} x {mark.length}"
        about = (mark.packing or "-", mark.tokenizer or "-", mark.detokeniser or "-")
        table.add_row(name, f"{mark.tokens:,}", rows, *about, mark.sha256[:12])
    return table
