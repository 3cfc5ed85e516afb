"""The page of a quickstart: one HTML file with its style and pictures inside, and no script.

The words and the style are in the file of the same name, ending in .html; pictures are SVG in the colours of the page.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from string import Template

import numpy as np

from tokenloom import __version__
from tokenloom.samplers import Step
from tokenloom.state import Noisy
from tokenloom.sudoku.evaluate_task import SolveRate
from tokenloom.sudoku.solver import BOXES, SIDES
from tokenloom.support.files import write_text

PAGE = Path(__file__).with_suffix(".html")
SMOOTHING = 0.9
PICTURES = 8
"""States shown of one grid."""
CAUTION = (
    "A minute allows more steps on one machine than on another: these rates show how the samplers differ and how fast "
    "the methods learn here, not which one is better in the end."
)
WIDTH, HEIGHT, CELL = 440, 250, 20
LEFT, RIGHT, TOP, BOTTOM = 46, WIDTH - 12, 12, HEIGHT - 38

Point = tuple[float, ...]
"""Two coordinates, and the standard error of the second where it has one, which is drawn as a bar."""
Rates = Sequence[SolveRate]
Steps = Sequence[Step]
Axis = tuple[float, float, Sequence[tuple[float, str]]]
"""Lowest and highest value, and the ticks with their labels."""


@dataclass(frozen=True)
class Curves:
    """The curves of one training."""

    method: str
    steps: int
    parameters: int
    loss: Sequence[Point]
    bound: Sequence[Point]


def write_report(
    path: Path, large: Steps, small: Mapping[str, Steps], measured: Rates, trainings: Sequence[Curves], minutes: float
) -> Path:
    """Fill in the page and write it."""
    page = Template(PAGE.read_text(encoding="utf-8")).substitute(
        version=__version__,
        out=escape(str(path.parent)),
        large=strip(large),
        small="".join(f"<h3>{escape(name)}</h3>{strip(steps)}" for name, steps in small.items()),
        table=table(measured),
        rates=rates(measured),
        loss=curves("Training loss", {found.method: smooth(found.loss) for found in trainings}),
        bound=curves("Validation bound", {found.method: found.bound for found in trainings}),
        puzzles=measured[0].puzzles,
        minutes="1 minute" if minutes == 1 else f"{minutes:g} minutes",
        trained=trained(trainings),
        caution=CAUTION,
    )
    return write_text(path, page)


def trained(trainings: Sequence[Curves]) -> str:
    """Return how far each method was trained, without which its rates mean little."""
    parts = [f"{item.method} {item.steps:,} steps of {item.parameters:,} parameters" for item in trainings]
    return f"Trained: {', '.join(parts)}"


def strip(steps: Steps) -> str:
    """Return some states of the newest run in a row; what changed since the picture before is coloured."""
    newest = steps[-steps[-1].index :]
    states = [newest[0].before, *(step.after for step in newest)]
    figures, before = [], states[0]
    for index in sorted(set(np.linspace(0, len(states) - 1, PICTURES).round().astype(int).tolist())):
        now, noise = states[index], 1 - float(states[index].alpha_t[0])
        caption = f"<figcaption>step {index} · noise {noise:.0%}</figcaption>"
        figures.append(f"<figure>{grid_picture(now, before)}{caption}</figure>")
        before = now
    return f'<div class="strip side{SIDES[states[0].tokens.shape[1]]}">{"".join(figures)}</div>'


def grid_picture(now: Noisy, before: Noisy) -> str:
    """Return the first grid of a state: given cells shaded and bold, changed ones coloured, a mask empty."""
    side = SIDES[now.tokens.shape[1]]
    given, changed = (~now.free[0]).tolist(), (now.tokens != before.tokens)[0].tolist()
    (height, width), size, parts = BOXES[side], side * CELL, []
    for index, token in enumerate(now.tokens[0].tolist()):
        y, x = (CELL * place for place in divmod(index, side))
        style = "given" if given[index] else "changed" if changed[index] else "settled"
        parts.append(f'<rect class="{style}" x="{x}" y="{y}" width="{CELL}" height="{CELL}"/>')
        if token < side:
            parts.append(f'<text class="{style}" x="{x + CELL / 2:g}" y="{y + CELL * 0.72:g}">{token + 1}</text>')
    for style, rows, columns in (("thin", 1, 1), ("thick", height, width)):
        across, down = range(0, size + 1, columns * CELL), range(0, size + 1, rows * CELL)
        parts += [f'<line class="{style}" x1="0" x2="{size}" y1="{y}" y2="{y}"/>' for y in down]
        parts += [f'<line class="{style}" x1="{x}" x2="{x}" y1="0" y2="{size}"/>' for x in across]
    return f'<svg class="grid" viewBox="-2 -2 {size + 4} {size + 4}">{"".join(parts)}</svg>'


def table(measured: Rates) -> str:
    """Return the rows of the table, as in the terminal."""
    rows = []
    for found in measured:
        style, is_first = style_of(found.run), found.steps == measured[0].steps
        name = f'<i class="{style}"></i>{escape(found.run)}' if is_first else ""
        rows.append(
            f'<tr class="{"first" if is_first else ""}"><td>{name}</td><td>{found.steps}</td>'
            f"<td>{found.solve_rate:.1%} <small>± {found.error:.1%}</small></td>"
            f'<td class="track"><span class="bar {style}" style="width:{found.solve_rate:.1%}"></span></td>'
            f"<td>{found.seconds:.1f}</td></tr>"
        )
    return "".join(rows)


def rates(measured: Rates) -> str:
    """Return a chart of solve rates over steps."""
    steps, lines = sorted({found.steps for found in measured}), defaultdict[str, list[Point]](list)
    for found in measured:
        lines[found.run].append((steps.index(found.steps), 100 * found.solve_rate, 100 * found.error))
    lowest = min(found.solve_rate - found.error for found in measured)
    floor = max(0, 20 * int(5 * lowest - 0.25))
    y_axis = (floor, 100, [(value, f"{value}%") for value in range(floor, 101, 10 if floor >= 60 else 20)])
    x_axis = (-0.2, len(steps) - 0.8, [(index, str(value)) for index, value in enumerate(steps)])
    return chart("Solve rate by number of steps", "network evaluations per grid", x_axis, y_axis, lines)


def curves(title: str, lines: Mapping[str, Sequence[Point]]) -> str:
    """Return a chart with one curve per method over the steps of training."""
    steps, heights = zip(*(point for points in lines.values() for point in points), strict=True)
    highest = 1.05 * float(np.quantile(heights, 0.98, method="higher"))  # a few wild values do not set the scale
    return chart(title, "training step", axis_to(max(steps)), axis_to(highest), lines)


def chart(title: str, x_name: str, x_axis: Axis, y_axis: Axis, lines: Mapping[str, Sequence[Point]]) -> str:
    """Return a curve for each method over a light grid; values outside the axes are moved to the edge."""
    across = partial(np.interp, xp=x_axis[:2], fp=(LEFT, RIGHT))
    down = partial(np.interp, xp=y_axis[:2], fp=(BOTTOM, TOP))
    parts = []
    for value, label in y_axis[2]:
        y = down(value)
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 7}" y="{y + 4:.1f}">{label}</text>')
    below = [(across(value), 17, label) for value, label in x_axis[2]]
    for x, lower, label in [*below, ((LEFT + RIGHT) / 2, 34, escape(x_name))]:
        parts.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{BOTTOM + lower}">{label}</text>')
    for method, points in lines.items():
        style, places = style_of(method), [(across(x), down(y)) for x, y, *_ in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline class="curve {style}" points="{path}"/>')
        for (x, _), (_, height, *errors) in zip(places, points, strict=True):
            for error in errors:
                low, high = down(height - error), down(height + error)
                parts.append(f'<line class="error {style}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>')
        if len(places) < 100:
            parts += [f'<circle class="dot {style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
    box = f"0 0 {WIDTH} {HEIGHT}"
    return f'<svg class="chart" viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def axis_to(high: float) -> Axis:
    """Return an axis from 0 to `high` with ticks at about five round values."""
    unit = 10.0 ** math.floor(math.log10(max(high, 1e-9)))
    step = next(unit * share for share in (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5) if high / (unit * share) <= 5)
    return 0.0, high, [(step * index, f"{step * index:,.9g}") for index in range(int(high / step + 1e-9) + 1)]


def smooth(points: Sequence[Point]) -> list[Point]:
    """Return an exponential moving average without the bias of its start."""
    steps, values = np.transpose(points)
    weights = SMOOTHING ** np.arange(len(values))
    return list(zip(steps, np.convolve(values, weights)[: len(values)] / weights.cumsum(), strict=True))


def style_of(method: str) -> str:
    """Return the class of a method's colour."""
    return "masked" if method.startswith("MDM") else "corrected" if "corrector" in method else "uniform"
