"""The tables of docs/samplers.md, rendered from the registries: name, options, processes, exactness and law.

python scripts/render_samplers.py docs/samplers.md
"""

import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import torch

from tokenloom.processes import PROCESSES, Process
from tokenloom.samplers import CORRECTORS, PREDICTORS
from tokenloom.samplers.kernel import Kernel

HEAD = "| name and options | processes | tends to the exact law | law |\n|---|---|---|---|\n"


def table(registry: Mapping[str, type[Kernel]]) -> str:
    """One row per kernel, by name."""
    return HEAD + "".join(row(name, kernel) for name, kernel in sorted(registry.items()))


def row(name: str, kernel: type[Kernel]) -> str:
    """What a kernel and then its module say of themselves, each in its first sentence."""
    options = [f"`{item.name}={item.default}`" for item in fields(kernel) if item.default is not MISSING]
    served = ", ".join(f"`{type(process).__name__}`" for process in examples() if kernel.supports(process))
    texts = [inspect.getdoc(kernel) or "", inspect.getdoc(inspect.getmodule(kernel)) or ""]
    law = " ".join(" ".join(text.split("\n\n")[0].split()) for text in texts).rstrip(":").replace("|", "\\|")
    cells = [" ".join([f"`{name}`", *options]), served, _exact(kernel), law]
    return "| " + " | ".join(cells) + " |\n"


def examples() -> Iterator[Process]:
    """One process of every registered kind; an option without a default is a table of noise."""
    for name in PROCESSES:
        kind = PROCESSES[name]
        tables = [item.name for item in fields(kind) if item.default is item.default_factory is MISSING][1:]
        options: dict[str, Any] = dict.fromkeys(tables, torch.full((1, 2), 0.5))
        yield kind(2, **options)


def _exact(kernel: type[Kernel]) -> str:
    unless = f", unless `{kernel.exact_unless}`" if kernel.exact_unless else ""
    return f"yes{unless}" if kernel.exact else "no"


def render(page: str) -> str:
    """The page with its tables as they should be."""
    tables = {"predictors": table(PREDICTORS), "correctors": table(CORRECTORS)}
    for mark, rendered in tables.items():
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{rendered}\n{end}{after}"
    return page


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(render(target.read_text()))
