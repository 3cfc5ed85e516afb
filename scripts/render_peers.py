"""What `tokenloom bench peers` measured, in docs/speed.md, docs/samplers.md and docs/diffusers.md.

python scripts/render_peers.py
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from json import loads
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT: Any = loads((ROOT / "benchmarks" / "results" / "peers.json").read_text())
ON_SCHEDULERS = ("DiscreteDDIMScheduler", "ancestral")
"""The samplers that docs/diffusers.md compares, each with and without correctors."""
FIGURES = {"last": "every position drawn", "mean": "a run"}
"""What goals are for."""
Row = Mapping[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> str:
    """A table of Markdown whose first columns are words, and the others figures, which stand to the right."""
    lines = [head, ["---"] * words + ["---:"] * (len(head) - words), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def named(name: str) -> str:
    """The name with its first part as code."""
    head, *rest = name.split(", ")
    return ", ".join([f"`{head}`", *rest])


def laws(names: Sequence[str] = ()) -> str:
    """The distance to the law of the data; above what chance explains it is bold."""
    law = RESULT["law"]
    limit = law["chance"]["quantile"]

    def cell(distance: float) -> str:
        return f"**{distance:.3f}**" if distance > limit else f"{distance:.3f}"

    title = (
        f"Exact posteriors, {law['tokens']} tokens, {law['positions']} positions, {law['steps']} steps, temperature 1, "
        f"{law['draws']:,} draws.\nExact draws show {law['chance']['mean']:.3f} on average, and more than {limit:.3f} "
        "once in a hundred times; what is above that is bold:"
    )
    rows = [
        [
            row["package"],
            named(row["name"]) + (" (heuristic)" if row["heuristic"] else ""),
            cell(row["denoiser"]),
            cell(row["leave-one-out"]),
        ]
        for row in law["rows"]
        if not names or row["name"].startswith(tuple(names))
    ]
    return f"{title}\n\n" + table(["", "", "denoiser network", "leave-one-out network"], rows, 2)


def costs() -> str:
    """A step of every sampler, one table per vocabulary and law."""
    return "\n".join(map(case, RESULT["cost"]["cases"]))


def case(found: Row) -> str:
    """One vocabulary and law."""
    steps, threads = RESULT["cost"]["steps"], RESULT["cost"]["threads"]
    title = (
        f"K = {found['vocab']:,}, L = {found['length']}, {found['law']}: top-p 0.9 keeps {found['kept']:,} "
        f"token{'s' if found['kept'] > 1 else ''}; a logsumexp takes {1e3 * found['logsumexp']['median']:,.1f} ms on "
        f"{threads} thread{'s' if threads > 1 else ''}:"
    )
    middle = f"step {steps // 2 + 1} of {steps}"
    head = ["", "", f"{middle}: logits read, %", "ms", "logsumexps", "every position drawn", "mean of a run"]
    rows = [
        [
            row["package"],
            named(row["name"]),
            f"{100 * row['middle']['predicted']:.0f}",
            f"{1e3 * row['middle']['best']:,.1f}",
            *(number(row[part]["ratio"]) for part in ("middle", "last", "mean")),
        ]
        for row in found["rows"]
    ]
    return f"{title}\n\n" + table(head, rows, 2)


def number(spread: Row) -> str:
    """A median with the range of most."""
    return f"{spread['median']:.1f} ({spread['low']:.1f} to {spread['high']:.1f})"


def goals() -> str:
    """How many of our cases stay within their goals, and which do not."""
    found = [(case, row) for case in RESULT["cost"]["cases"] for row in case["rows"] if row["goal"] is not None]
    lines = []
    for goal in sorted({row["goal"] for _, row in found}, reverse=True):
        for part, words in FIGURES.items():
            values = {
                f"{row['name']}, K = {case['vocab']:,}, {case['law']}": row[part]["ratio"]["median"]
                for case, row in found
                if row["goal"] == goal
            }
            what = (
                "top-p 0.9" if any(row["top_p"] < 1 for _, row in found if row["goal"] == goal) else "everything else"
            )
            lines.append(reached(f"{what} at most {goal:.0f} logsumexps, {words}", values, goal))
    return "".join(f"- {line}\n" for line in lines)


def reached(goal: str, values: Mapping[str, float], limit: float) -> str:
    """Say how many values are within the limit."""
    missed = sum(value > limit for value in values.values())
    largest = max(values, key=lambda name: values[name])
    said = f"{goal}: {len(values) - missed} of {len(values)} cases, the largest {values[largest]:.1f} ({largest})"
    return said + ("; **not reached**" if missed else "; reached")


def on_schedulers() -> str:
    """The rows that docs/diffusers.md tells of."""
    return laws(ON_SCHEDULERS)


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "speed.md": {"peers": costs, "peer goals": goals},
    "samplers.md": {"peer laws": laws},
    "diffusers.md": {"peer laws": on_schedulers},
}


def render(name: str, page: str) -> str:
    """The page with its tables as they should be."""
    for mark, make in PAGES[name].items():
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, found, rest = page.partition(begin)
        if not found:
            raise ValueError(f"docs/{name} has no place for the table {mark}: a line <!-- {mark} -->")
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{make()}\n{end}{after}"
    return page


if __name__ == "__main__":
    for each in PAGES:
        target = ROOT / "docs" / each
        target.write_text(render(each, target.read_text()))
