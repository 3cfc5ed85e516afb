"""`tokenloom evaluate`: the likelihood of held-out data, one row per checkpoint, one column per data set; or a task."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from tokenloom import __version__
from tokenloom.cli.entries import entry_of
from tokenloom.cli.ranks import ranks
from tokenloom.cli.registry import COMMANDS, factory, read_ahead
from tokenloom.evaluation.causal_lm import is_causal_lm, load_causal_lm
from tokenloom.evaluation.harness import HarnessOptions, evaluate_tasks
from tokenloom.evaluation.held_out import Fingerprint
from tokenloom.evaluation.tables import SUFFIX, Entry, Format, Unit, grouped, render
from tokenloom.evaluation.tasks import TASKS, EvaluationTask
from tokenloom.evaluation.zero_shot import Cell, Progress, Settings, score_language_model, score_run
from tokenloom.models.opening import Run, Weights, named, open_runs, placed
from tokenloom.models.store import model_folder
from tokenloom.objectives.likelihood import Workers
from tokenloom.support.display import Display
from tokenloom.support.files import check_writable, write_json, write_text

Results = dict[str, dict[str, Cell]]  # row name -> column name -> figure


@dataclass(frozen=True)
class Measured:
    """Models to measure, and the place of their figures."""

    runs: tyro.conf.Positional[tuple[str, ...]]
    """Run folders, model folders or names of bundled models; for the likelihood also causal language models of Hugging
    Face (a folder, a Hub name, or smollm2)."""
    process: tuple[str, ...] = ()
    """Measure each run under each of these processes; for models trained with --method any."""
    out: str | None = None
    """Folder for the figures; by default evaluation/ in the run."""
    task: str = "likelihood"
    """The figure to measure: likelihood, or a task such as sudoku; see --tasks for those of the evaluation harness."""

    @property
    def names(self) -> list[str]:
        """Every run under every process."""
        return [named(run, part) for run in self.runs for part in self.process or (None,)]


@dataclass(frozen=True)
class Likelihoods(Measured):
    """A table of likelihoods."""

    data: tuple[str, ...] = ()
    """Text files, Hub names or kinds of data such as markov; by default what each run held out."""
    settings: Annotated[Settings, tyro.conf.arg(name="")] = field(default_factory=Settings)
    weights: Literal["ema", "raw", "both"] = "ema"
    """Averaged weights, the raw ones of the newest checkpoint, or both."""
    compile: bool = False
    """Compile the network first (torch.compile), which takes up to a minute; for long runs on a GPU."""
    table: Format | None = None
    """Print a table for a paper instead: a row per config, the mean over its seeds ± their spread, the best in bold.
    It is also written to --out."""
    unit: Unit = "perplexity"
    """The figure of --table."""


@dataclass(frozen=True, kw_only=True)
class HarnessTasks(Measured):
    """Tasks of the evaluation harness."""

    tasks: tuple[str, ...]
    """Names of its tasks, such as lambada_openai."""
    options: Annotated[HarnessOptions, tyro.conf.arg(name="")] = field(default_factory=HarnessOptions)
    limit: int | None = None
    """Use only this many documents of each task."""


@dataclass(frozen=True)
class Subject:
    """A row of the table, with the name and the folder of its files."""

    row: str
    name: str
    folder: Path
    provenance: dict[str, Any]
    entry: Entry
    score: Callable[[str | None, Settings, Progress], Cell]


@COMMANDS.register("evaluate")
@factory
def evaluate_command(args: Sequence[str]) -> Callable[..., None]:
    """Return the command with the options of the task that the arguments name."""
    if "--tasks" in args:
        return evaluate_on_tasks
    task = read_ahead(args, "--task") or "likelihood"
    return evaluate if task == "likelihood" else _task_command(TASKS[task])


def evaluate(config: Annotated[Likelihoods, tyro.conf.arg(name="")]) -> None:
    """Measure the likelihood of held-out data under trained models (a bound; exact for autoregressive ones)."""
    mine, names, settings = ranks(), config.names, config.settings
    display = Display(Console(stderr=True, quiet=not mine.first))
    with display.noting(), display.status("loading"):
        models = [name for name in names if name == "smollm2" or (model_folder(name) is None and is_causal_lm(name))]
        kinds: tuple[Weights, ...] = ("ema", "raw") if config.weights == "both" else (config.weights,)
        paths = [name for name in names if name not in models]
        found = [run for kind in kinds for run in open_runs(paths, kind)] if paths or not models else []
        opened = [placed(run, config.compile) for run in found]
        workers = Workers(mine.rank, mine.count, mine.add)
        subjects = [_of_run(run, workers) for run in opened] + [_of_language_model(name) for name in models]
    if config.out is not None:
        subjects = [replace(subject, folder=Path(config.out)) for subject in subjects]
    for folder in {subject.folder for subject in subjects}:
        check_writable(folder)
    if settings.length is None and opened:
        settings = replace(settings, length=opened[0].length)
    if config.table is not None:
        grouped([subject.entry for subject in subjects])
    with mine.together():
        results = _score_all(subjects, config, settings, display, mine.first)
    if config.table is not None and mine.first:
        entries = [replace(subject.entry, cells=results[subject.row]) for subject in subjects]
        text = render(entries, config.table, config.unit)
        print(text, end="")  # rich would wrap it
        if config.out is not None:
            path = Path(config.out) / f"table.{SUFFIX[config.table]}"
            write_text(path, text)
            display.console.print(str(path), style="dim", highlight=False, soft_wrap=True)


def _of_run(run: Run, workers: Workers) -> Subject:
    step = "" if run.model.about.step is None else f", step {run.model.about.step:,}"
    row, score = f"{run.name} ({run.weights}{step})", partial(score_run, run, workers)
    return Subject(row, f"{run.name}-{run.weights}", run.results, run.provenance(), entry_of(run), score)


def _of_language_model(name: str) -> Subject:
    model = load_causal_lm(name)
    about, score = {"tokenloom": __version__, "model": model.name}, partial(score_language_model, model)
    entry = Entry(model.name, (model.name, "-", "next token"), {"name": model.name}, None)
    return Subject(f"{model.name} (causal language model)", model.name, Path("evaluation"), about, entry, score)


def _task_command(kind: type[EvaluationTask]) -> Callable[..., None]:
    def evaluate(measured: Annotated[Measured, tyro.conf.arg(name="")], options: Any = kind()) -> None:  # noqa: B008
        options.run(measured.names, measured.out)

    evaluate.__annotations__["options"] = Annotated[kind, tyro.conf.arg(name=kind.name)]
    evaluate.__doc__ = kind.__doc__
    return evaluate


def evaluate_on_tasks(config: Annotated[HarnessTasks, tyro.conf.arg(name="")]) -> None:
    """Run tasks of the language-model evaluation harness (lm_eval) on models."""
    opened, console = open_runs(config.names), Console(markup=False)
    folders = [run.results if config.out is None else Path(config.out) for run in opened]
    for folder in folders:
        check_writable(folder)
    for run, folder in zip(opened, folders, strict=True):
        with Console(stderr=True).status(f"{run.name} answers"):
            report = evaluate_tasks(run.model, config.tasks, config.options, limit=config.limit)
        table = Table("task", "metric", "value", "standard error", title=run.name, title_justify="left")
        for figure in report.figures:
            error = "-" if figure.standard_error is None else f"{figure.standard_error:.4f}"
            table.add_row(figure.task, figure.metric, f"{figure.value:.4f}", error)
        console.print(table)
        for note in report.notes:
            console.print(note, highlight=False)
        record = {"provenance": run.provenance()} | asdict(report) | {"notes": report.notes}
        path = write_json(folder / f"harness-{run.name.replace('/', '-')}.json", record)
        console.print(str(path), style="dim", highlight=False, soft_wrap=True)


def _score_all(
    subjects: list[Subject], config: Likelihoods, settings: Settings, display: Display, first: bool
) -> Results:
    """Write every figure as soon as it is known, and print the tables at the end; only the first process speaks."""
    data, results = config.data, Results()
    written: list[Path] = []
    pairs = [(subject, source) for subject in subjects for source in data or (None,)]
    with display.status("evaluating"):
        for done, (subject, source) in enumerate(pairs):
            what = f"{subject.row} on {source or 'its own data'}"
            display.update(f"{what}: reading the data", done / len(pairs))
            cell = subject.score(source, settings, display.part(what, done, len(pairs)))
            column = cell.held.data.name if source is None else column_name(source, data)
            results.setdefault(subject.row, {})[column] = cell
            if first:
                name = re.sub(r"[^\w.-]+", "-", f"likelihood-{subject.name}-{column}")
                record = {"provenance": subject.provenance, "settings": asdict(settings)} | cell.record()
                written.append(write_json(subject.folder / f"{name}.json", record))
    console = Console(quiet=not first, markup=False, stderr=config.table is not None)
    console.print(figures_table(results))
    console.print(data_table(results))
    notes = dict.fromkeys(note for row in results.values() for cell in row.values() for note in cell.held.data.notes)
    for note in notes:
        console.print(note, highlight=False, soft_wrap=True)
    for path in written:
        console.print(str(path), style="dim", highlight=False, soft_wrap=True)
    return results


def column_name(source: str, sources: Sequence[str]) -> str:
    """Return the last parts of a path, as many as tell it from the other sources."""
    parts = Path(source).parts
    others = [Path(other).parts for other in sources if other != source]
    known = (count for count in range(1, len(parts)) if all(other[-count:] != parts[-count:] for other in others))
    return source if not Path(source).exists() else "/".join(parts[-next(known, len(parts)) :])


def figures_table(results: Results) -> Table:
    """Return a table of nats per token, perplexity, and nats per character for text."""
    columns = list(dict.fromkeys(name for row in results.values() for name in row))
    heads = (Column(name, justify="right", overflow="fold") for name in columns)
    title = "Held-out likelihood: nats per token ± standard error"
    table = Table(Column("checkpoint", overflow="fold"), *heads, title=title, title_justify="left", show_lines=True)
    for name, row in results.items():
        table.add_row(name, *(_cell_text(row[column]) if column in row else "-" for column in columns))
    return table


def _cell_text(cell: Cell) -> str:
    figure = cell.likelihood
    lines = [f"{'' if figure.exact else '≤ '}{figure}", f"perplexity {figure.perplexity:,.2f}"]
    if cell.truncated is not None:
        lines.append(f"truncated {cell.truncated}")
    if cell.held.data.entropy is not None:
        lines.append(f"entropy {cell.held.data.entropy:.4f}")
    if cell.per_character is not None:
        nats, error = cell.per_character
        lines.append(f"{nats:.4f}{'' if math.isnan(error) else f' ± {error:.4f}'} per character")
    return "\n".join(lines)


def data_table(results: Results) -> Table:
    """Return a table of what exactly was scored, once for each different tokenisation."""
    table = Table(title="Data", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("data", "tokens", "rows", "packing", "tokenizer", "undone", "sha256"):
        side: Literal["left", "right"] = "right" if column in ("tokens", "rows") else "left"
        whole = column not in ("data", "tokenizer")
        table.add_column(column, overflow="fold", justify=side, no_wrap=whole, min_width=len(column))
    seen: dict[Fingerprint, tuple[str, int]] = {}
    for name, cell in ((name, cell) for row in results.values() for name, cell in row.items()):
        seen.setdefault(cell.held.fingerprint, (name, cell.likelihood.sequences))
    for mark, (name, scored) in seen.items():
        rows = f"{scored:,}/{mark.sequences:,} x {mark.length}"
        about = (mark.packing or "-", mark.tokenizer or "-", mark.detokeniser or "-")
        table.add_row(name, f"{mark.tokens:,}", rows, *about, mark.sha256[:12])
    return table
