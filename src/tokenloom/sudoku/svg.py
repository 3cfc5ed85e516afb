"""Small pictures as inline SVG: line charts, and grids with given and changed cells.  Colours are the page's own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from tokenloom.sudoku.solver import box_shape

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A curve with its name and its class in the page's style."""

    name: str
    style: str
    points: Sequence[Point]
    spread: Sequence[float] = ()
    """A standard error a point, drawn as a bar."""
    dots: bool = True


@dataclass(frozen=True)
class Axes:
    """What a chart spans."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    x_name: str
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    width: int = 440
    height: int = 250

    def place(self, point: Point) -> Point:
        """From values to the picture; values outside are moved to the edge."""
        left, right, top, bottom = 46, self.width - 12, 12, self.height - 38
        shares = [
            min(1.0, max(0.0, (value - low) / ((high - low) or 1)))
            for value, (low, high) in zip(point, (self.x, self.y), strict=True)
        ]
        return left + shares[0] * (right - left), bottom - shares[1] * (bottom - top)


def chart(title: str, axes: Axes, lines: Sequence[Line]) -> str:
    """Curves over a light grid."""
    parts = [_scale(axes)]
    for line in lines:
        places = [axes.place(point) for point in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline class="curve {line.style}" points="{path}"/>')
        for (x, _), (value, height), error in zip(places, line.points, line.spread, strict=False):
            low, high = axes.place((value, height - error))[1], axes.place((value, height + error))[1]
            parts.append(f'<line class="error {line.style}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>')
        if line.dots:
            parts += [f'<circle class="dot {line.style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in places]
    box = f"0 0 {axes.width} {axes.height}"
    return f'<svg class="chart" viewBox="{box}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _scale(axes: Axes) -> str:
    left, bottom = axes.place((axes.x[0], axes.y[0]))
    right, _ = axes.place((axes.x[1], axes.y[1]))
    parts = []
    for value in axes.y_ticks:
        y = axes.place((axes.x[0], value))[1]
        parts.append(f'<line class="rule" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{left - 7}" y="{y + 4:.1f}">{axes.y_text(value)}</text>')
    for value in axes.x_ticks:
        x = axes.place((value, axes.y[0]))[0]
        parts.append(
            f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{bottom + 17}">{axes.x_text(value)}</text>'
        )
    middle = (left + right) / 2
    parts.append(f'<text class="tick" text-anchor="middle" x="{middle}" y="{bottom + 34}">{escape(axes.x_name)}</text>')
    return "".join(parts)


def round_ticks(high: float, count: int = 4) -> list[float]:
    """About `count` round values from 0 to `high`."""
    if high <= 0:
        return [0.0]
    unit = (
        10.0 ** (len(str(int(high))) - 1) if high >= 1 else 10.0 ** -next(n for n in range(1, 99) if high * 10**n >= 1)
    )
    step = next(unit * share for share in (0.1, 0.2, 0.25, 0.5, 1, 2, 2.5) if high / (unit * share) <= count + 1)
    return [step * index for index in range(int(high / step + 1e-9) + 1)]


def grid_picture(tokens: Sequence[int], given: Sequence[bool], changed: Sequence[bool], side: int) -> str:
    """A Sudoku: given cells shaded and bold, changed ones coloured, a mask empty."""
    cell, (height, width) = 20, box_shape(side)
    size, parts = side * cell, []
    for index, token in enumerate(tokens):
        y, x = (cell * place for place in divmod(index, side))
        style = "given" if given[index] else "changed" if changed[index] else "settled"
        parts.append(f'<rect class="{style}" x="{x}" y="{y}" width="{cell}" height="{cell}"/>')
        if token < side:
            parts.append(f'<text class="{style}" x="{x + cell / 2:g}" y="{y + cell * 0.72:g}">{token + 1}</text>')
    lines = [(cell * place, place % width == 0, True) for place in range(side + 1)]
    lines += [(cell * place, place % height == 0, False) for place in range(side + 1)]
    for place, thick, upright in sorted(lines, key=lambda line: line[1]):
        ends = (place, place, 0, size) if upright else (0, size, place, place)
        x1, x2, y1, y2 = ends
        style = "thick" if thick else "thin"
        parts.append(f'<line class="{style}" x1="{x1}" x2="{x2}" y1="{y1}" y2="{y2}"/>')
    return f'<svg class="grid" viewBox="-2 -2 {size + 4} {size + 4}">{"".join(parts)}</svg>'
