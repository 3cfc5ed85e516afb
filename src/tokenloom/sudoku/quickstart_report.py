"""The page of a quickstart: one HTML file with its style and pictures inside, and no script.

The words and the style are in the file of the same name, ending in .html; what was measured is put in here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

from tokenloom import __version__
from tokenloom.samplers import Step
from tokenloom.state import Noisy
from tokenloom.sudoku.svg import Axes, Line, Point, chart, grid_picture, round_ticks
from tokenloom.sudoku.text import SIDES
from tokenloom.support.files import write_text

PAGE = Path(__file__).with_suffix(".html")
NAMES = {"udm": "UDM", "mdm": "MDM"}
"""The methods that are trained, and their names on the page."""
SMOOTHING = 0.9
PICTURES = 8
"""States shown of one grid."""
CAUTION = (
    "A minute allows more steps on one machine than on another: these rates show how the samplers differ and how fast "
    "the methods learn here, not which one is better in the end."
)


@dataclass(frozen=True)
class Measured:
    """A cell of the table."""

    method: str
    steps: int
    rate: float
    error: float
    seconds: float


@dataclass(frozen=True)
class Curves:
    """The curves of one training."""

    method: str
    steps: int
    parameters: int
    loss: list[Point]
    bound: list[Point]


class Recorder:
    """Keeps the first grid of the newest try, step by step: a callback of the sampler."""

    def __init__(self, name: str, puzzle: str) -> None:
        self.name, self.puzzle = name, puzzle
        self.frames: list[tuple[float, list[int]]] = []
        """Noise level and tokens of each state."""

    def __call__(self, step: Step) -> None:
        if step.index == 1:
            self.frames = [_frame(step.before)]
        self.frames.append(_frame(step.after))


def _frame(noisy: Noisy) -> tuple[float, list[int]]:
    return 1 - float(noisy.alpha_t[0]), noisy.tokens[0].tolist()


def write_report(
    path: Path,
    large: Recorder,
    small: Sequence[Recorder],
    measured: Sequence[Measured],
    trainings: Sequence[Curves],
    puzzles: int,
    minutes: float,
) -> Path:
    """Fill in the page and write it."""
    page = Template(PAGE.read_text(encoding="utf-8")).substitute(
        version=__version__,
        out=escape(str(path.parent)),
        large=strip(large, PICTURES),
        small="".join(f"<h3>{escape(recorder.name)}</h3>{strip(recorder, PICTURES)}" for recorder in small),
        table=table(measured),
        rates=rates(measured),
        loss=curves("Training loss", trainings, [smooth(found.loss) for found in trainings], dots=False),
        bound=curves("Validation bound", trainings, [found.bound for found in trainings], dots=True),
        puzzles=puzzles,
        minutes=f"{minutes:g} minute{'' if minutes == 1 else 's'}",
        trained=trained(trainings),
        caution=CAUTION,
    )
    return write_text(path, page)


def trained(trainings: Sequence[Curves]) -> str:
    """Return how far each method was trained, without which its rates mean little."""
    parts = [f"{NAMES[item.method]} {item.steps:,} steps of {item.parameters:,} parameters" for item in trainings]
    return f"Trained: {', '.join(parts)}"


def strip(recorder: Recorder, count: int) -> str:
    """Return some states in a row, evenly over the steps; coloured is what changed since the picture before."""
    side, given = SIDES[len(recorder.puzzle)], [symbol != "." for symbol in recorder.puzzle]
    last = len(recorder.frames) - 1
    figures, before = [], recorder.frames[0][1]
    for index in sorted({round(index * last / (count - 1)) for index in range(count)}):
        noise, tokens = recorder.frames[index]
        picture = grid_picture(tokens, given, [new != old for new, old in zip(tokens, before, strict=True)], side)
        figures.append(f"<figure>{picture}<figcaption>step {index} · noise {noise:.0%}</figcaption></figure>")
        before = tokens
    return f'<div class="strip side{side}">{"".join(figures)}</div>'


def table(measured: Sequence[Measured]) -> str:
    """Return the rows of the table, as in the terminal."""
    rows, before = [], ""
    for found in measured:
        style = style_of(found.method)
        name = "" if found.method == before else f'<i class="{style}"></i>{escape(found.method)}'
        start, before = ' class="first"' if name else "", found.method
        bar = f'<span class="bar {style}" style="width:{100 * found.rate:.1f}%"></span>'
        rows.append(
            f"<tr{start}><td>{name}</td><td>{found.steps}</td><td>{found.rate:.1%} <small>± {found.error:.1%}</small>"
            f'</td><td class="track">{bar}</td><td>{found.seconds:.1f}</td></tr>'
        )
    return "".join(rows)


def rates(measured: Sequence[Measured]) -> str:
    """Return a chart of solve rates over steps."""
    steps = sorted({found.steps for found in measured})
    lines = []
    for method in dict.fromkeys(found.method for found in measured):
        own = [found for found in measured if found.method == method]
        points = [(float(steps.index(found.steps)), 100 * found.rate) for found in own]
        lines.append(Line(style_of(method), points, [100 * found.error for found in own]))
    lowest = min(found.rate - found.error for found in measured)
    floor = max(0, 20 * int(5 * lowest - 0.25))
    y_ticks = [(float(value), f"{value}%") for value in range(floor, 101, 10 if floor >= 60 else 20)]
    x_ticks = [(float(index), str(value)) for index, value in enumerate(steps)]
    axes = Axes((-0.2, len(steps) - 0.8), (floor, 100), x_ticks, y_ticks, "network evaluations per grid")
    return chart("Solve rate by number of steps", axes, lines)


def curves(title: str, trainings: Sequence[Curves], points: Sequence[Sequence[Point]], dots: bool) -> str:
    """Return a chart with one curve per method over the steps of training."""
    styles = [style_of(NAMES[found.method]) for found in trainings]
    lines = [Line(style, part, dots=dots) for style, part in zip(styles, points, strict=True)]
    x_high = max(x for part in points for x, _ in part)
    heights = sorted(y for part in points for _, y in part)
    y_high = 1.05 * heights[min(len(heights) - 1, int(0.98 * len(heights)))]  # a few wild values do not set the scale
    values = round_ticks(y_high)
    places = max(1, len(f"{values[-1]:g}".partition(".")[2]))
    x_ticks = [(value, f"{value:,.0f}") for value in round_ticks(x_high)]
    y_ticks = [(value, f"{value:.{places}f}") for value in values]
    return chart(title, Axes((0, x_high), (0, y_high), x_ticks, y_ticks, "training step"), lines)


def smooth(points: Sequence[Point]) -> list[Point]:
    """Return an exponential moving average without the bias of its start."""
    total, weight, found = 0.0, 0.0, []
    for step, value in points:
        total, weight = SMOOTHING * total + value, SMOOTHING * weight + 1
        found.append((step, total / weight))
    return found


def style_of(method: str) -> str:
    """Return the class of a method's colour."""
    return "masked" if method.startswith("MDM") else "corrected" if "corrector" in method else "uniform"
