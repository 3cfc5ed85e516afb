"""A hook of mkdocs that runs the Python blocks of docs/tutorials and shows what they print and draw.

    blocks of a page, in one namespace  ->  the page with text and figures behind each block

A value such as `steps = 900  # tested with 10` is cut short where a page is only tested; readers do not see the remark.
With TUTORIALS=skip in the environment nothing runs and figures are blank, which is how links are checked in seconds.
"""

import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("MPLBACKEND", "agg")  # before pyplot is imported: nothing is shown on a screen

BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r"= (.+?)  # tested with (.+)$", re.MULTILINE)
BLANK = b'<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
STYLE: Any = {"figure.figsize": (7, 3.2), "figure.constrained_layout.use": True, "axes.spines.right": False,
         "axes.spines.top": False, "font.size": 10, "svg.fonttype": "path", "svg.hashsalt": "tokenloom"}  # fmt: skip


@dataclass(frozen=True)
class Executed:
    """A page after its blocks ran."""

    markdown: str
    figures: dict[str, bytes]
    """SVG by file name, beside the page."""
    names: dict[str, Any]
    """What the blocks defined."""


def execute(text: str, stem: str, *, short: bool = False) -> Executed:
    """Run the blocks of a page in order; `short` takes the values that the page is tested with."""
    figures: dict[str, bytes] = {}
    with _namespace(stem) as names:

        def shown(match: re.Match[str]) -> str:
            code = REMARK.sub(r"= \2" if short else r"= \1", match[1])
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile(code, f"{stem}.md", "exec"), names)
            drawn = list(_figures(stem, len(figures)))
            figures.update((name, content) for name, _, content in drawn)
            pictures = "".join(f"\n![{title}]({name})\n" for name, title, _ in drawn)
            output = f'\n```{{.text .output title="Output"}}\n{printed.getvalue().rstrip()}\n```\n'
            return f"```python\n{code}```\n" + (output if printed.getvalue() else "") + pictures

        markdown = BLOCK.sub(shown, text)
        return Executed(markdown, figures, dict(names))


def skip(text: str, stem: str) -> Executed:
    """The page with blank figures, one for each that its blocks would draw."""
    count = text.count("plt.subplots(")
    return Executed(REMARK.sub(r"= \1", text), {f"{stem}-{number + 1}.svg": BLANK for number in range(count)}, {})


@contextmanager
def _namespace(stem: str) -> Iterator[dict[str, Any]]:
    """The names of a fresh module, which dataclasses find by its name; what it registers is forgotten."""
    import matplotlib.pyplot as plt

    from tokenloom.cells import PROCESSES
    from tokenloom.couplings import COUPLINGS
    from tokenloom.data.base import SOURCES
    from tokenloom.nn import NETWORKS
    from tokenloom.noise import NOISES
    from tokenloom.objectives import OBJECTIVES
    from tokenloom.samplers import CORRECTORS, PREDICTORS

    module = ModuleType(stem.replace("-", "_"))
    sys.modules[module.__name__] = module
    with ExitStack() as stack:
        for registry in (NOISES, COUPLINGS, PROCESSES, PREDICTORS, CORRECTORS, OBJECTIVES, NETWORKS, SOURCES):
            stack.enter_context(registry.scratch())
        stack.callback(sys.modules.pop, module.__name__)
        stack.callback(plt.close, "all")
        yield module.__dict__


def _figures(stem: str, before: int) -> Iterator[tuple[str, str, bytes]]:
    """Name, title and SVG of every open figure, which is closed."""
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        figure, target = plt.figure(number), io.BytesIO()
        figure.savefig(target, format="svg", metadata={"Date": None})
        title = "; ".join(filter(None, (axes.get_title() or axes.get_ylabel() for axes in figure.axes)))
        plt.close(figure)
        before += 1
        yield f"{stem}-{before}.svg", title.replace("\n", " "), target.getvalue()


EXECUTED: dict[str, Executed] = {}


def on_files(files: Any, config: Any) -> Any:
    """Run every tutorial before links are checked, so that its figures are files of the site."""
    from matplotlib import rc_context
    from mkdocs.structure.files import File

    for file in [file for file in files.documentation_pages() if file.src_uri.startswith("tutorials/")]:
        stem = Path(file.src_uri).stem
        text = Path(file.abs_src_path).read_text()
        with rc_context(STYLE):
            done = (skip if os.environ.get("TUTORIALS") == "skip" else execute)(text, stem)
        EXECUTED[file.src_uri] = done
        for name, content in done.figures.items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The executed page in the place of its source."""
    done = EXECUTED.get(page.file.src_uri)
    return markdown if done is None else done.markdown
