"""Small pictures as inline SVG: line charts, and grids with given and changed cells.  Colours are the page's own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tokenloom.sudoku.solver import box_shape

Point = tuple[float, float]
Ticks = Sequence[tuple[float, str]]

WIDTH, HEIGHT, CELL = 440, 250, 20
LEFT, RIGHT, TOP, BOTTOM = 46, WIDTH - 12, 12, HEIGHT - 38


@dataclass(frozen=True)
class Line:
    """A curve with its class in the page's style, and a standard error for each point, drawn as a bar."""

    style: str
    points: Sequence[Point]
    errors: Sequence[float] = ()
    dots: bool = True


@dataclass(frozen=True)
class Axes:
    """The ranges of a chart, and its ticks with their labels."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_ticks: Ticks
    y_ticks: Ticks
    x_name: str

    def place(self, x: float, y: float) -> Point:
        """Return the pixel of a value; values outside are moved to the edge."""
        across, up = (
            min(1.0, max(0.0, (value - low) / ((high - low) or 1))) for value, (low, high) in ((x, self.x), (y, self.y))
        )
        return LEFT + across * (RIGHT - LEFT), BOTTOM - up * (BOTTOM - TOP)


def chart(title: str, axes: Axes, lines: Sequence[Line]) -> str:
    """Return curves over a light grid."""
    parts = []
    for value, label in axes.y_ticks:
        y = axes.place(axes.x[0], value)[1]
        parts.append(f'<line class="rule" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 7}" y="{y + 4:.1f}">{label}</text>')
    below = [(axes.place(value, axes.y[0])[0], 17, label) for value, label in axes.x_ticks]
    for x, down, label in [*below, ((LEFT + RIGHT) / 2, 34, escape(axes.x_name))]:
        parts.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{BOTTOM + down}">{label}</text>')
    for line in lines:
        places = [axes.place(*point) for point in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline class="curve {line.style}" points="{path}"/>')
        for (value, height), error in zip(line.points, line.errors, strict=False):
            (x, low), (_, high) = axes.place(value, height - error), axes.place(value, height + error)
            parts.append(f'<line class="error {line.style}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>')
        if line.dots:
            parts += [f'<circle class="dot {line.style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
    box = f"0 0 {WIDTH} {HEIGHT}"
    return f'<svg class="chart" viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def round_ticks(high: float, count: int = 4) -> list[float]:
    """Return about `count` round values from 0 to `high`."""
    if high <= 0:
        return [0.0]
    unit = 10.0 ** math.floor(math.log10(high))
    step = next(unit * share for share in (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5) if high / (unit * share) <= count + 1)
    return [step * index for index in range(int(high / step + 1e-9) + 1)]


def grid_picture(tokens: Sequence[int], given: Sequence[bool], changed: Sequence[bool], side: int) -> str:
    """Return a Sudoku: given cells shaded and bold, changed ones coloured, a mask empty."""
    height, width = box_shape(side)
    size, parts = side * CELL, []
    for index, token in enumerate(tokens):
        y, x = (CELL * place for place in divmod(index, side))
        style = "given" if given[index] else "changed" if changed[index] else "settled"
        parts.append(f'<rect class="{style}" x="{x}" y="{y}" width="{CELL}" height="{CELL}"/>')
        if token < side:
            parts.append(f'<text class="{style}" x="{x + CELL / 2:g}" y="{y + CELL * 0.72:g}">{token + 1}</text>')
    lines = []
    for place in range(side + 1):
        at = place * CELL
        lines.append((place % width == 0, f'x1="{at}" x2="{at}" y1="0" y2="{size}"'))
        lines.append((place % height == 0, f'x1="0" x2="{size}" y1="{at}" y2="{at}"'))
    lines.sort(key=lambda line: line[0])  # thick lines are drawn over thin ones
    parts += [f'<line class="{"thick" if thick else "thin"}" {ends}/>' for thick, ends in lines]
    return f'<svg class="grid" viewBox="-2 -2 {size + 4} {size + 4}">{"".join(parts)}</svg>'
