"""The tables of docs/samplers.md, rendered from the registries (name, options, processes, exactness and law) and from
what was measured of correctors and grids (`bench_correctors.py`, `bench_grids.py` and `bench_trained_grids.py`).

python scripts/render_samplers.py docs/samplers.md
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch

from tokenloom.cells import PROCESSES
from tokenloom.process import Process
from tokenloom.samplers import CORRECTORS, PREDICTORS
from tokenloom.samplers.kernel import Kernel
from tokenloom.support.registry import required_of

HEAD = "| name and options | processes | tends to the exact law | law |\n|---|---|---|---|\n"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
SHOWN_GRIDS = ("uniform", "power:1.5", "information", "fitted")


def table(registry: Mapping[str, type[Kernel]]) -> str:
    """One row per kernel, by name."""
    return HEAD + "".join(row(name, kernel) for name, kernel in sorted(registry.items()))


def row(name: str, kernel: type[Kernel]) -> str:
    """What a kernel says of itself in its first sentence, and its module too where the kernel says no more."""
    options = [f"`{item.name}={item.default}`" for item in fields(kernel) if item.default is not MISSING]
    supported = ", ".join(f"`{process.title}`" for process in examples() if kernel.supports(process))
    own, module = inspect.getdoc(kernel) or "", inspect.getdoc(inspect.getmodule(kernel)) or ""
    texts = [own] if "\n\n" in own else [own, module]
    law = " ".join(" ".join(text.split("\n\n")[0].split()) for text in texts).replace("|", "\\|")
    cells = [" ".join([f"`{name}`", *options]), supported, exactness(kernel()), law]
    return "| " + " | ".join(cells) + " |\n"


def examples() -> Iterator[Process]:
    """One process of every registered kind; an option without a default is a table of noise."""
    builders: list[Callable[..., Process]] = [PROCESSES[name] for name in PROCESSES]
    for build in builders:
        yield build(2, **dict.fromkeys(required_of(build)[1:], torch.full((1, 2), 0.5)))


def exactness(kernel: Kernel) -> str:
    """Whether a kernel is exact at its defaults, and which single options change that."""
    exceptions = [words for words, other in variants(kernel) if other.exact != kernel.exact]
    return ("yes" if kernel.exact else "no") + (f", unless {' or '.join(exceptions)}" if exceptions else "")


def variants(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    """The kernel with one option changed: every other word, the other truth, or a larger whole number."""
    hints = get_type_hints(type(kernel))
    for item in fields(kernel):
        kind, value = hints[item.name], getattr(kernel, item.name)
        if kind is bool:
            yield f"`{item.name}={str(not value).lower()}`", replace(kernel, **{item.name: not value})
        elif kind is int:
            yield f"`{item.name}` is above {value}", replace(kernel, **{item.name: value + 1})
        elif get_origin(kind) is Literal:
            for other in (word for word in get_args(kind) if word != value):
                yield f"`{item.name}={other}`", replace(kernel, **{item.name: other})


def mixing_table(result: dict[str, Any]) -> str:
    """The distance to p_t after so many evaluations, one row per corrector and one column per size of a table."""
    sizes = list(dict.fromkeys((each["tokens"], each["positions"]) for each in result["mixing"]))
    counts = ", ".join(map(str, result["counts"]))
    head = "".join(f" {tokens}<sup>{positions}</sup> states |" for tokens, positions in sizes)
    rows: dict[str, str] = {}
    for each in result["mixing"]:
        cell = " ".join(f"{value:.3f}" for value in each["distances"])
        rows[each["corrector"]] = rows.get(each["corrector"], "") + f" {cell} |"
    body = "".join(f"| `{name}` |{cells}\n" for name, cells in rows.items())
    return f"| after {counts} evaluations |{head}\n|---|" + "---|" * len(sizes) + f"\n{body}"


def run_table(result: dict[str, Any]) -> str:
    """What runs with a corrector end in, one row per corrector."""
    chain: dict[str, dict[int, dict[str, float]]] = {}
    for each in result["chain"]["runs"]:
        chain.setdefault(each["corrector"], {})[each["budget"]] = each
    single = {each["corrector"]: each for each in result["table"]["runs"]}
    budgets = sorted({each["budget"] for each in result["chain"]["runs"]} - {0})
    steps = max(each["budget"] for each in single.values())
    head = f"| corrector | table, {steps} |" + "".join(f" chain, {budget} | nats |" for budget in budgets)
    lines = [head, "|---|---|" + "---|---|" * len(budgets)]
    for name in dict.fromkeys([*single, *chain]):
        cells = [name if name in ("exact draws", "none") else f"`{name}`"]
        cells.append(f"{single[name]['distance']:.3f}" if name in single else "")
        for budget in budgets:
            found = chain.get(name, {}).get(0 if name == "exact draws" else budget)
            cells += ["", ""] if found is None else [f"{found['distance']:.3f}", f"{found['nats']:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def grid_table(result: dict[str, Any], what: str) -> str:
    """A figure of every process and budget, in a cell one for each of the grids that are shown."""
    found = {(each["process"], each["steps"], each["grid"]): each[what] for each in result["runs"]}
    budgets, lines = result["budgets"], []
    for process in dict.fromkeys(each["process"] for each in result["runs"]):
        shown = [grid for grid in SHOWN_GRIDS if (process, budgets[0], grid) in found]
        cells = (" ".join(f"{found[process, steps, grid]:.3f}" for grid in shown) for steps in budgets)
        lines.append(f"| `{process}` | {' | '.join(cells)} |\n")
    head = "".join(f" {steps} evaluations |" for steps in budgets)
    return f"| {', '.join(SHOWN_GRIDS)} |{head}\n|---|{'---|' * len(budgets)}\n{''.join(lines)}"


def savings_table(result: dict[str, Any]) -> str:
    """The default grid beside the uniform one at as many evaluations and at a third more."""
    lines = ["| | triples | nats | four apart |\n|---|---:|---:|---:|"]
    for each in result["savings"]:
        figures = " | ".join(f"{each[what]:.4f}" for what in ("triples", "nats", "apart"))
        lines.append(f"| `{each['grid']}`, {each['steps']} evaluations | {figures} |")
    return "\n".join(lines) + "\n"


def trained_bounds(result: dict[str, Any]) -> str:
    """The bounds of chains of few steps of trained networks, one row per network."""
    lines = []
    for each in result.values():
        cells = (" / ".join(f"{found['bounds'][grid]:.3f}" for found in each["bounds"]) for grid in SHOWN_GRIDS)
        lines.append(f"| `{each['model']}` | {' | '.join(cells)} |\n")
    steps = " / ".join(str(found["steps"]) for found in next(iter(result.values()))["bounds"])
    return f"| {steps} steps |{_heads(SHOWN_GRIDS)}\n|---|{'---|' * len(SHOWN_GRIDS)}\n{''.join(lines)}"


def trained_draws(result: dict[str, Any]) -> str:
    """What these networks draw: nats below the uniform grid at equal entropy, and the share of puzzles solved."""
    lines = []
    for kind, items in (("text", result["text"]["curves"]), ("sudoku", result["sudoku"]["rates"])):
        for steps in dict.fromkeys(item["steps"] for item in items):
            cells = [_draw(item) for item in items if item["steps"] == steps]
            what = "nats below `uniform`" if kind == "text" else "% solved"
            lines.append(f"| `{result[kind]['model']}`, {steps} evaluations, {what} | {' | '.join(cells)} |\n")
    return f"| |{_heads(SHOWN_GRIDS)}\n|---|{'---|' * len(SHOWN_GRIDS)}\n{''.join(lines)}"


def _draw(item: dict[str, Any]) -> str:
    if "points" in item:
        error = (2 * sum(point["nats_error"] ** 2 for point in item["points"])) ** 0.5 / len(item["points"])
        return "0" if item["grid"] == "uniform" else f"{item['below_uniform']:.3f} ± {1.96 * error:.3f}"
    return f"{100 * item['solve_rate']:.1f} ± {196 * item['error']:.1f}"


def _heads(grids: Sequence[str]) -> str:
    return "".join(f" `{grid}` |" for grid in grids)


def render(page: str) -> str:
    """The page with its tables as they should be."""
    result, grids = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("correctors", "grids"))
    tables = {"predictors": table(PREDICTORS), "correctors": table(CORRECTORS)}
    tables |= {"mixing": mixing_table(result), "corrected runs": run_table(result)}
    tables |= {f"grids: {what}": grid_table(grids, what) for what in ("triples", "nats", "apart")}
    tables["savings"] = savings_table(grids)
    trained = json.loads((RESULTS / "trained_grids.json").read_text())
    tables |= {"trained bounds": trained_bounds(trained), "trained draws": trained_draws(trained)}
    for mark, rendered in tables.items():
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{rendered}\n{end}{after}"
    return page


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(render(target.read_text()))
