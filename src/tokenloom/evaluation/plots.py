"""One quiet style for all figures: thin axes, few colours that also differ in grey, lines with bands of error."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tokenloom.support.extras import optional
from tokenloom.support.files import replacing

COLOURS = ("#3b4cc0", "#d1495b", "#2a9d8f", "#e0a030", "#7a5195", "#5b6770")
"""Repeated, with another dash, from the seventh line on."""
DASHES = ("-", "--", ":")
INK = "#33383d"

STYLE: dict[str, Any] = {
    "font.size": 9.5,
    "figure.titlesize": 11.5,
    "figure.titleweight": "bold",
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelcolor": INK,
    "axes.edgecolor": "#9aa1a8",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e8ea",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "savefig.dpi": 160,
    "svg.hashsalt": "tokenloom",
}


@contextmanager
def canvas(path: Path, rows: int, columns: int, width: float, height: float) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes [rows, columns], written to `path` at the end; no window, no global state."""
    matplotlib, figures = optional("matplotlib", "evaluate"), optional("matplotlib.figure", "evaluate")
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(figsize=(width, height))
        yield figure, figure.subplots(rows, columns, squeeze=False)
        with replacing(path) as partial:
            undated = {"Date": None} if path.suffix == ".svg" else None  # the same figure is the same file
            figure.savefig(partial, metadata=undated)


def line_style(number: int) -> dict[str, str]:
    """Return colour and dash of the line of this number."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number // len(COLOURS) % len(DASHES)]}


def band(axes: Any, x: Sequence[float], y: Sequence[float], error: Sequence[float], label: str, number: int) -> None:
    """Draw a line with a band of two standard errors; `number` chooses colour and dash."""
    style, middle = line_style(number), np.asarray(y, dtype=float)
    half = 2 * np.nan_to_num(np.asarray(error, dtype=float))
    axes.fill_between(x, middle - half, middle + half, color=style["color"], alpha=0.18, linewidth=0)
    axes.plot(x, middle, marker="o", markersize=3.2, label=label, clip_on=False, **style)
