"""The tables and the picture of docs/speed.md, rendered from benchmarks/results/*.json.

python scripts/render_speed.py docs/speed.md
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from json import loads
from pathlib import Path
from typing import Any

from tokenloom.evaluation.plots import COLOURS, INK, canvas

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PICTURE = ROOT / "docs" / "pictures" / "speed.svg"
BATCHES = (1, 8, 32)
Row = Mapping[str, Any]


def result(name: str) -> Any:
    """A stored measurement."""
    return loads((RESULTS / f"{name}.json").read_text())


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; all columns but the first stand to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def number(spread: Row, digits: int = 2) -> str:
    """A median with the range of most."""
    return f"{spread['median']:.{digits}f} ({spread['low']:.{digits}f} to {spread['high']:.{digits}f})"


def plain(value: float | None) -> str:
    """A figure without a spread, where it was measured."""
    return "" if value is None else f"{value:.2f}"


def percent(spread: Row) -> str:
    """A share likewise."""
    return f"{100 * spread['median']:.1f} ({100 * spread['low']:.0f} to {100 * spread['high']:.0f})"


def by_case(rows: Sequence[Row]) -> dict[str, dict[int, Row]]:
    """The rows of each sampler, by batch."""
    found: dict[str, dict[int, Row]] = {}
    for row in rows:
        found.setdefault(row["name"], {})[row["batch"]] = row
    return found


def sampling() -> str:
    """A step in forward passes, and the sampler's share of it."""
    head = ["sampler", *(f"batch {batch}: {what}" for batch in BATCHES for what in ("passes", "sampler %"))]
    rows = []
    for name, found in by_case(result("sampling")["rows"]).items():
        cells = [
            (f"{found[batch]['ratio']['median']:.2f}", percent(found[batch]["sampler"])) if batch in found else ("", "")
            for batch in BATCHES
        ]
        rows.append([name, *(cell for pair in cells for cell in pair)])
    return table(head, rows)


def goals() -> str:
    """How many cases stay within their goals, and which do not."""
    rows = result("sampling")["rows"]
    lines = []
    for batch in (1, 32):
        asked = [row for row in rows if row["batch"] == batch and row["share_goal"] is not None]
        lines.append(
            _reached(
                f"sampler at most {100 * asked[0]['share_goal']:.0f}% of a step at batch {batch}",
                {row["name"]: row["sampler"]["median"] for row in asked},
                asked[0]["share_goal"],
                lambda share: f"{100 * share:.1f}%",
            )
        )
    asked = [row for row in rows if row["batch"] == 1 and row["over_body_goal"] is not None]
    over = {row["name"]: row["over_body"]["median"] for row in asked}
    lines.append(
        _reached("a step at most 1.15 of the body at batch 1 (MDM, max coupling, AUDM)", over, 1.15, "{:.2f}".format)
    )
    return "".join(f"- {line}\n" for line in lines)


def _reached(goal: str, values: Mapping[str, float], limit: float, words: Callable[[float], str]) -> str:
    missed = {name: value for name, value in values.items() if value > limit}
    largest = max(values, key=lambda name: values[name])
    count = f"{len(values) - len(missed)} of {len(values)} cases"
    said = f"{goal}: {count}, the largest {words(values[largest])} ({largest})"
    return said + ("" if not missed else f"; **not reached** by {', '.join(missed)}")


def growth() -> str:
    """Of a step with vocabulary and length."""
    rows = [
        [
            f"{row['vocab']:,}",
            f"{row['length']:,}",
            f"{1e3 * row['step_seconds']['median']:,.1f}",
            f"{1e3 * row['forward_seconds']['median']:,.1f}",
            number(row["ratio"]),
            percent(row["sampler"]),
        ]
        for row in result("sampling")["growth"]
    ]
    return table(["K", "L", "ms per step", "ms per forward pass", "passes", "sampler %"], rows)


def compiled() -> str:
    """Milliseconds of a step and of a forward pass, plain and then under torch.compile."""
    rows, found = [], result("sampling-compiled")["rows"]
    for before, after in zip(found[::2], found[1::2], strict=True):
        figures = [
            number({key: 1e3 * value for key, value in each["step_seconds"].items()}, 0) for each in (before, after)
        ]
        passes = before["forward_seconds"]["median"] / after["forward_seconds"]["median"]
        gain = before["step_seconds"]["median"] / after["step_seconds"]["median"]
        rows.append([before["name"], str(before["batch"]), *figures, f"{gain:.2f}", f"{passes:.2f}"])
    return table(["sampler", "batch", "step, ms", "compiled", "step, times as fast", "forward pass"], rows)


def training() -> str:
    """Time and memory against dense cross-entropy; beside it with recomputed blocks and compiled."""
    others = {
        name: {row["name"]: row for row in result(f"training-{name}")["rows"]} for name in ("recompute", "compiled")
    }
    rows = []
    for row in result("training")["rows"]:
        again, fast = (others[name].get(row["name"]) for name in ("recompute", "compiled"))
        rows.append(
            [
                row["name"],
                number(row["time_ratio"]),
                plain(row["step_memory_ratio"]),
                plain(row["memory_ratio"]),
                "" if again is None else number(again["time_ratio"]),
                "" if again is None else plain(again["step_memory_ratio"]),
                "" if fast is None else number(fast["time_ratio"]),
            ]
        )
    head = ["", "time", "step memory", "whole process", "recomputed: time", "step memory", "compiled: time"]
    return table(head, rows)


def loading() -> str:
    """Tokens per second from a file to packed rows."""
    record = result("loading")
    rows = [
        [row["name"], f"{row['tokens_per_second']['median']:,.0f}", number(row["ours_over_it"])]
        for row in record["rows"]
    ]
    title = (
        f"{record['text']}, {record['megabytes']:.0f} MB, {record['tokenizer']}, rows of {record['length']}; "
        f"loading adds {record['gigabytes_on_top']:.2f} GB at its peak"
    )
    return f"{title}:\n\n" + table(["", "tokens per second", "tokenloom over it"], rows)


def busy() -> str:
    """Commands beside busy processes, and alone."""
    head = {"name": "", "alone": "alone, s", "beside": "beside two busy processes, s", "ratio": "times as long"}
    rows = [[row["name"], *(number(row[key]) for key in list(head)[1:])] for row in result("busy")["rows"]]
    return table(list(head.values()), rows)


TABLES = {
    "sampling": sampling,
    "goals": goals,
    "growth": growth,
    "compiled": compiled,
    "training": training,
    "loading": loading,
    "busy": busy,
}


def render(page: str) -> str:
    """The page with its tables as they should be."""
    for mark, make in TABLES.items():
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, found, rest = page.partition(begin)
        if not found:
            raise ValueError(f"the page has no place for the table {mark}: a line <!-- {mark} -->")
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{make()}\n{end}{after}"
    return page


def draw(path: Path) -> None:
    """A bar for every sampler and peer at batch 1, cut into body, head and sampler, in forward passes."""
    rows = [row for row in result("sampling")["rows"] if row["batch"] == 1]
    with canvas(path, 1, 1, 8.4, 0.8 + 0.24 * len(rows)) as (_, grid):
        axes = grid[0][0]
        for place, row in enumerate(rows):
            left = 0.0
            for part, colour in zip(("body", "head", "sampler"), COLOURS, strict=False):
                width = row["ratio"]["median"] * row[part]["median"]
                axes.barh(place, width, left=left, height=0.7, color=colour, label=part if not place else None)
                left += width
        axes.axvline(1, color=INK, linewidth=0.9, linestyle="--")
        axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set(xlabel="a step, in whole forward passes of the network (body and head at all positions)")
        axes.legend(loc="center right", frameon=False)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(render(target.read_text()))
    draw(PICTURE)
