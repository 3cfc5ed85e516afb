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
from tokenloom.sudoku.svg import Axes, Line, Point, chart, grid_picture, round_ticks
from tokenloom.sudoku.text import SIDES
from tokenloom.support.files import write_text

PAGE = Path(__file__).with_suffix(".html")
NAMES = {"udm": "UDM", "mdm": "MDM"}
SMOOTHING = 0.9
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
    """What training wrote down."""

    method: str
    steps: int
    parameters: int
    loss: list[Point]
    bound: list[Point]


@dataclass(frozen=True)
class Frame:
    """A state on the way."""

    noise: float
    tokens: list[int]


class Recorder:
    """Keeps the first grid of the newest try, step by step: a callback of the sampler."""

    def __init__(self, name: str, puzzle: str) -> None:
        self.name, self.puzzle = name, puzzle
        self.frames: list[Frame] = []

    def __call__(self, step: Step) -> None:
        if step.index == 1:
            self.frames = [Frame(1 - float(step.before.alpha_t[0]), step.before.tokens[0].tolist())]
        self.frames.append(Frame(1 - float(step.after.alpha_t[0]), step.after.tokens[0].tolist()))


@dataclass(frozen=True)
class ReportContent:
    """Everything the page tells."""

    large: Recorder
    small: Sequence[Recorder]
    measured: Sequence[Measured]
    curves: Sequence[Curves]
    puzzles: int
    minutes: float


def write_report(path: Path, content: ReportContent) -> Path:
    """Fill in the page and write it."""
    page = Template(PAGE.read_text(encoding="utf-8")).substitute(
        version=__version__,
        out=escape(str(path.parent)),
        large=strip(content.large, 8),
        small="".join(f"<h3>{escape(recorder.name)}</h3>{strip(recorder, 8)}" for recorder in content.small),
        table=table(content),
        rates=rates(content),
        loss=curves("Training loss", content, [smooth(found.loss) for found in content.curves], dots=False),
        bound=curves("Validation bound", content, [found.bound for found in content.curves], dots=True),
        puzzles=content.puzzles,
        minutes=f"{content.minutes:g} minute{'' if content.minutes == 1 else 's'}",
        trained=trained(content.curves),
        caution=CAUTION,
    )
    return write_text(path, page)


def trained(curves: Sequence[Curves]) -> str:
    """How far each method came, without which its rates mean little."""
    parts = [f"{NAMES[item.method]} {item.steps:,} steps of {item.parameters:,} parameters" for item in curves]
    return f"Trained: {', '.join(parts)}"


def strip(recorder: Recorder, count: int) -> str:
    """Some states in a row, evenly over the steps; coloured is what changed since the picture before."""
    side, given = SIDES[len(recorder.puzzle)], [symbol != "." for symbol in recorder.puzzle]
    last = len(recorder.frames) - 1
    chosen = sorted({round(index * last / (count - 1)) for index in range(count)})
    figures, before = [], recorder.frames[0].tokens
    for index in chosen:
        frame = recorder.frames[index]
        changed = [new != old for new, old in zip(frame.tokens, before, strict=True)]
        picture = grid_picture(frame.tokens, given, changed, side)
        figures.append(f"<figure>{picture}<figcaption>step {index} · noise {frame.noise:.0%}</figcaption></figure>")
        before = frame.tokens
    return f'<div class="strip side{side}">{"".join(figures)}</div>'


def table(content: ReportContent) -> str:
    """Method x steps, as in the terminal."""
    rows, before = [], ""
    for found in content.measured:
        name = "" if found.method == before else f'<i class="{style_of(found.method)}"></i>{escape(found.method)}'
        start, before = ' class="first"' if name else "", found.method
        bar = f'<span class="bar {style_of(found.method)}" style="width:{100 * found.rate:.1f}%"></span>'
        rows.append(
            f"<tr{start}><td>{name}</td><td>{found.steps}</td><td>{found.rate:.1%} <small>± {found.error:.1%}</small>"
            f'</td><td class="track">{bar}</td><td>{found.seconds:.1f}</td></tr>'
        )
    return "".join(rows)


def rates(content: ReportContent) -> str:
    """Solve rate over steps."""
    steps = sorted({found.steps for found in content.measured})
    position = {value: float(index) for index, value in enumerate(steps)}
    lines = []
    for method in dict.fromkeys(found.method for found in content.measured):
        own = [found for found in content.measured if found.method == method]
        points = [(position[found.steps], 100 * found.rate) for found in own]
        lines.append(Line(method, style_of(method), points, [100 * found.error for found in own]))
    lowest = min(found.rate - found.error for found in content.measured)
    floor = max(0, 20 * int(5 * lowest - 0.25))
    ticks = [float(value) for value in range(floor, 101, 10 if floor >= 60 else 20)]
    axes = Axes(
        (-0.2, len(steps) - 0.8), (floor, 100), list(position.values()), ticks,
        "network evaluations per grid", lambda x: str(steps[round(x)]), lambda y: f"{y:.0f}%",
    )  # fmt: skip
    return chart("Solve rate by number of steps", axes, lines)


def curves(title: str, content: ReportContent, points: Sequence[Sequence[Point]], dots: bool) -> str:
    """One curve per method over the steps of training."""
    names = [NAMES[found.method] for found in content.curves]
    lines = [Line(name, style_of(name), part, dots=dots) for name, part in zip(names, points, strict=True)]
    x_high = max(x for part in points for x, _ in part)
    heights = sorted(y for part in points for _, y in part)
    y_high = 1.05 * heights[min(len(heights) - 1, int(0.98 * len(heights)))]  # a few wild values do not set the scale
    y_ticks = round_ticks(y_high)
    places = len(f"{y_ticks[-1]:g}".partition(".")[2]) if len(y_ticks) > 1 else 1
    axes = Axes(
        (0, x_high), (0, y_high), round_ticks(x_high), y_ticks,
        "training step", lambda x: f"{x:,.0f}", lambda y: f"{y:.{max(1, places)}f}",
    )  # fmt: skip
    return chart(title, axes, lines)


def smooth(points: Sequence[Point]) -> list[Point]:
    """An exponential moving average without the bias of its start."""
    total, weight, found = 0.0, 0.0, []
    for step, value in points:
        total, weight = SMOOTHING * total + value, SMOOTHING * weight + 1
        found.append((step, total / weight))
    return found


def style_of(method: str) -> str:
    """The class of a method's colour."""
    return "masked" if method.startswith("MDM") else "corrected" if "corrector" in method else "uniform"
