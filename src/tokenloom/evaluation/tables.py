r"""A table for a paper: a row per config, a column per data set, and the mean over seeds with its spread.

Runs whose configs differ in the training seed alone are one row.  Of the figures f_1 .. f_n of n seeds a cell holds

    m ± s,      m = sum_i f_i / n,      s^2 = sum_i (f_i - m)^2 / (n - 1),

so s is the standard deviation between trainings (the noise of each estimate included), not the error of m.  One run
says nothing of other seeds: for n = 1, s is the standard error of its estimate.  The error of a perplexity e^f is
e^f times that of f, to first order.  The lowest m of several is bold, unless they were scored on different tokens.
"""

import csv
import io
import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tokenloom.evaluation.zero_shot import Cell

Format = Literal["latex", "markdown", "csv"]
Unit = Literal["perplexity", "nats", "characters"]
SUFFIX: dict[Format, str] = {"latex": "tex", "markdown": "md", "csv": "csv"}
HEADS = ("Method", "Loss", "Predicts")
DIGITS: dict[Unit, int] = {"perplexity": 2, "nats": 4, "characters": 4}
UNITS: dict[Unit, str] = {"perplexity": "Perplexity", "nats": "Nats per token", "characters": "Nats per character"}
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
SPECIAL |= {character: f"\\{character}" for character in "&%$#_{}"}


@dataclass(frozen=True)
class Entry:
    """A model of a table: its name, its labels, its flattened config without the seed, and its figures by data set."""

    name: str
    labels: tuple[str, str, str]
    config: dict[str, Any]
    seed: int | None
    cells: dict[str, Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class Figure:
    """The mean over `count` seeds and its spread (NaN if unknown), and whether it is the best of its column."""

    mean: float
    spread: float
    count: int
    best: bool = False


@dataclass(frozen=True)
class Row:
    """A config: its labels, the runs that have it, and its figures by data set."""

    labels: tuple[str, ...]
    runs: tuple[str, ...]
    figures: dict[str, Figure]


def grouped(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries of each config, in the order of their first ones, and raise if a seed is there twice."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(json.dumps(entry.config, sort_keys=True, default=str), []).append(entry)
    for group in groups.values():
        if len({entry.seed for entry in group}) < len(group):
            names = ", ".join(entry.name for entry in group)
            raise ValueError(f"{names} have the same config, and two of them the same seed; name each seed once")
    return list(groups.values())


def rows_of(entries: Sequence[Entry], unit: Unit) -> list[Row]:
    """Return the rows, the best of every column marked."""
    groups = grouped(entries)
    found = [_figures(group, unit) for group in groups]
    for column in dict.fromkeys(name for row in found for name in row):
        shown = {key: round(row[column].mean, DIGITS[unit]) for key, row in enumerate(found) if column in row}
        if len(shown) > 1 and comparable(entries, column, unit):
            for key in (key for key, value in shown.items() if value == min(shown.values())):
                found[key][column] = replace(found[key][column], best=True)
    named = [tuple(entry.name for entry in group) for group in groups]
    return [Row(*parts) for parts in zip(_labels([group[0] for group in groups]), named, found, strict=True)]


def comparable(entries: Sequence[Entry], column: str, unit: Unit) -> bool:
    """True if the figures of a column are of the same tokens, or per character."""
    digests = {entry.cells[column].held.fingerprint.sha256 for entry in entries if column in entry.cells}
    return unit == "characters" or len(digests) == 1


def _figures(group: list[Entry], unit: Unit) -> dict[str, Figure]:
    figures = {}
    for column in dict.fromkeys(name for entry in group for name in entry.cells):
        values = [value for entry in group if column in entry.cells and (value := measured(entry.cells[column], unit))]
        means = [mean for mean, _ in values]
        if len(values) == 1:
            figures[column] = Figure(*values[0], 1)
        elif values:
            figures[column] = Figure(statistics.fmean(means), statistics.stdev(means), len(values))
    return figures


def measured(cell: Cell, unit: Unit) -> tuple[float, float] | None:
    """Return the figure of a cell in a unit with its standard error; None where it has no characters."""
    figure = cell.likelihood
    match unit:
        case "perplexity":
            return figure.perplexity, figure.perplexity * figure.per_token_error
        case "nats":
            return figure.per_token, figure.per_token_error
        case "characters":
            return cell.per_character


def _labels(entries: list[Entry]) -> list[tuple[str, ...]]:
    """Return the labels of each row, with the options by which rows of the same labels differ, or else their names."""
    keys = list(dict.fromkeys(key for entry in entries for key in entry.config))
    found: list[tuple[str, ...]] = []
    for entry in entries:
        same = [other for other in entries if other.labels == entry.labels]
        varying = [key for key in keys if len({str(other.config.get(key)) for other in same}) > 1]
        more = [f"{key}={entry.config[key]}" for key in varying if key in entry.config]
        found.append((*entry.labels, entry.name if "name" in varying else ", ".join(more)))
    return found if any(extra for *_, extra in found) else [labels[:-1] for labels in found]


def render(entries: Sequence[Entry], form: Format, unit: Unit) -> str:
    """Return the table as text."""
    rows = rows_of(entries, unit)
    if not any(row.figures for row in rows):
        raise ValueError(f"none of these data sets has a figure in {unit}; leave out --unit {unit}")
    return _csv(rows, unit) if form == "csv" else _typeset(rows, form, unit, caption(entries, rows, unit))


def caption(entries: Sequence[Entry], rows: Sequence[Row], unit: Unit) -> str:
    """Say what the figures are, what ± stands for, and which columns have no best one."""
    exact = {entry.name for entry in entries for cell in entry.cells.values() if cell.likelihood.exact}
    known = [row.labels[0] for row in rows if exact & set(row.runs)]
    words = [f"{UNITS[unit]}, lower is better: upper bounds" + (f" (exact for {', '.join(known)})." if known else ".")]
    counts = {figure.count for row in rows for figure in row.figures.values()}
    if max(counts) > 1:
        words.append("± is the standard deviation between n runs of different seeds.")
    if min(counts) == 1:
        words.append(f"± is the standard error of one run's estimate{' where n = 1' if max(counts) > 1 else ''}.")
    columns = dict.fromkeys(name for row in rows for name in row.figures)
    for apart in (name for name in columns if not comparable(entries, name, unit)):
        words.append(f"Nothing is bold under {apart}: its rows were scored on different tokens.")
    return " ".join(words)


def _typeset(rows: list[Row], form: Format, unit: Unit, words: str) -> str:
    columns, extra = list(dict.fromkeys(name for row in rows for name in row.figures)), len(rows[0].labels) > len(HEADS)
    latex = form == "latex"
    clean: Callable[[str], str] = _escaped if latex else lambda text: text.replace("|", r"\|")
    heads = [*HEADS, *(["Options"] if extra else []), "n", *columns]
    lines = [[clean(head) for head in heads]]
    for row in rows:
        n = max((figure.count for figure in row.figures.values()), default=0)
        cells = [_cell(row.figures.get(column), DIGITS[unit], latex) for column in columns]
        lines.append([*map(clean, row.labels), str(n), *cells])
    left = len(heads) - len(columns) - 1
    if not latex:
        rule = ["---"] * left + ["---:"] * (len(columns) + 1)
        return "\n".join([*("| " + " | ".join(line) + " |" for line in (lines[0], rule, *lines[1:])), "", words, ""])
    head, *body = (" & ".join(line) + r" \\" for line in lines)
    return "\n".join(
        [r"\begin{table}", r"\centering", rf"\caption{{{_escaped(words)}}}",
         rf"\begin{{tabular}}{{{'l' * left}{'r' * (len(columns) + 1)}}}", r"\toprule", head, r"\midrule",
         *body, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    )  # fmt: skip


def _cell(figure: Figure | None, digits: int, latex: bool) -> str:
    if figure is None:
        return "-"
    mean = f"{figure.mean:.{digits}f}"
    mean = mean if not figure.best else rf"\textbf{{{mean}}}" if latex else f"**{mean}**"
    spread = "" if math.isnan(figure.spread) else f" ± {figure.spread:.{digits}f}"
    return mean + (_escaped(spread) if latex else spread)


def _escaped(text: str) -> str:
    return re.sub(r"[\\~^&%$#_{}]", lambda found: SPECIAL[found[0]], text).replace("±", r"$\pm$")


def _csv(rows: list[Row], unit: Unit) -> str:
    """Return a line per figure, with every digit."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = (
        "method",
        "loss",
        "predicts",
        "options",
        "runs",
        "data",
        "unit",
        "mean",
        "spread",
        "spread_is",
        "n",
        "best",
    )
    writer.writerow(names)
    for row in rows:
        labels = (*row.labels, "")[:4]
        for column, figure in row.figures.items():
            kind = "standard deviation between seeds" if figure.count > 1 else "standard error of the estimate"
            values = (repr(figure.mean), "" if math.isnan(figure.spread) else repr(figure.spread), kind, figure.count)
            writer.writerow((*labels, " ".join(row.runs), column, unit, *values, figure.best))
    return text.getvalue()
