"""`tokenloom evaluate`: the likelihood of held-out data, a row a checkpoint, a column a data set."""

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tokenloom.cli.evaluate_sudoku import SudokuTask, evaluate_sudoku
from tokenloom.evaluation.causal_lm import CausalLM, is_causal_lm, load_causal_lm
from tokenloom.evaluation.held_out import Fingerprint
from tokenloom.evaluation.records import check_writable, write_json
from tokenloom.evaluation.runs import Run, Weights, model_folder, open_runs
from tokenloom.evaluation.zero_shot import Cell, Settings, score_language_model, score_run

Subject = Run | CausalLM
Results = dict[str, dict[str, Cell]]
"""Row name -> column name -> figure."""


def evaluate(
    runs: Annotated[tuple[str, ...], tyro.conf.Positional],
    data: tuple[str, ...] = (),
    settings: Annotated[Settings, tyro.conf.arg(name="")] = Settings(),  # noqa: B008
    weights: Literal["ema", "raw", "both"] = "ema",
    out: str | None = None,
    task: Literal["likelihood", "sudoku"] = "likelihood",
    sudoku: SudokuTask = SudokuTask(),  # noqa: B008
) -> None:
    """Measure the likelihood of held-out data under trained models (a bound; exact for autoregressive ones).

    Args:
        runs: Run or model folders, folders of Hugging Face causal language models, GGUF files, or smollm2.
        data: Paths, Hub names, or markov, sudoku, digits; by default what each run held out.
        settings: How much is measured.
        weights: Averaged weights (ema), raw ones, or both, where a run folder holds them.
        out: Folder for the figures as JSON; by default evaluation/ in each run.
        task: likelihood, or sudoku: how many puzzles come out solved.
        sudoku: Which puzzles, and how they are solved.
    """
    if task == "sudoku":
        evaluate_sudoku(runs, sudoku, out)
        return
    live = Console(stderr=True)
    with live.status("loading"):
        subjects = _subjects(runs, weights)
    for folder in {_folder(subject, out) for subject in subjects}:
        check_writable(folder)
    if settings.length is None:
        settings = replace(settings, length=next((it.length for it in subjects if isinstance(it, Run)), None))
    _score_all(subjects, data, settings, out, live)


def _score_all(
    subjects: list[Subject], data: tuple[str, ...], settings: Settings, out: str | None, live: Console
) -> None:
    """Every figure is written as soon as it is known; the tables come at the end."""
    results: Results = {}
    written = []
    with Progress(console=live, transient=True) as progress:
        bar = progress.add_task("evaluating", total=len(subjects) * max(1, len(data)))
        for subject in subjects:
            row = results.setdefault(row_name(subject), {})
            for source in data or (None,):
                progress.update(bar, description=f"{row_name(subject)} on {source or 'its own data'}")
                cell = _score(subject, source, settings)
                column = cell.data.name if source is None else column_name(source, data)
                row[column] = cell
                written.append(_write(subject, column, cell, settings, out))
                progress.advance(bar)
    console = Console()
    console.print(figures_table(results))
    console.print(data_table(results))
    for path in written:
        console.print(f"[dim]{path}[/]", highlight=False, soft_wrap=True)


def _subjects(names: tuple[str, ...], weights: Literal["ema", "raw", "both"]) -> list[Subject]:
    """Runs first, then language models; a name that is neither is refused as a run."""
    if not names:
        raise ValueError("name at least one run folder")
    models = [name for name in names if name == "smollm2" or (model_folder(name) is None and is_causal_lm(name))]
    kinds: tuple[Weights, ...] = ("ema", "raw") if weights == "both" else (weights,)
    paths = [name for name in names if name not in models]
    runs = [run for kind in kinds for run in open_runs(paths, kind)] if paths else []
    return [*runs, *(load_causal_lm(name) for name in models)]


def _score(subject: Subject, source: str | None, settings: Settings) -> Cell:
    if isinstance(subject, Run):
        return score_run(subject, source, settings)
    if source is None:
        raise ValueError(f"{subject.name} is a language model without data of its own; name the text with --data")
    return score_language_model(subject, source, settings)


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
    model: dict[str, object] = {"name": subject.name}
    if isinstance(subject, Run):
        process, predicts = type(subject.model.process).__name__, subject.model.predicts.__name__
        model |= {"weights": subject.weights, "step": subject.step, "process": process, "predicts": predicts}
    record = {"tokenloom": version("tokenloom"), "model": model, "settings": asdict(settings)} | cell.record()
    return write_json(_folder(subject, out) / f"{name}.json", record)


def _folder(subject: Subject, out: str | None) -> Path:
    return Path(out) if out is not None else subject.results if isinstance(subject, Run) else Path("evaluation")


def figures_table(results: Results) -> Table:
    """Nats a token, perplexity, and nats a character for text."""
    table = Table(title="Held-out likelihood: nats a token ± standard error", title_justify="left", show_lines=True)
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
        lines.append(f"{cell.per_character:.4f} ± {cell.per_character_error:.4f} a character")
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
