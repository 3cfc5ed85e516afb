"""The status of long work: a bar that moves on a terminal, a plain line now and then where the output is piped."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from warnings import catch_warnings, simplefilter

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

OFTEN, SELDOM, AT_FIRST = 1.5, 10.0, 30.0
"""Seconds between two lines in the first `AT_FIRST` seconds, and afterwards."""
_shown: list["Display"] = []
"""Displays that show something now."""


def current() -> "Display":
    """Return the display that shows something now, so that no second one is drawn over it; or a new one."""
    return _shown[-1] if _shown else Display()


class Display:
    """A status that stays until it changes; of nested ones the innermost is visible."""

    def __init__(self, console: Console | None = None) -> None:
        text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1))  # gives way
        columns = (SpinnerColumn(), BarColumn(15), TimeElapsedColumn(), text)
        self.console = console or Console(stderr=True)
        self._bars = Progress(
            *columns, console=self.console, transient=True, disable=not self.console.is_terminal, expand=True
        )

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """Display a text, with its age, until the block ends."""
        outer, status = self._bars.tasks[-1:], self._printing() if self._bars.disable else self._bars
        shown: AbstractContextManager[Any] = nullcontext() if outer else status
        for task in outer:
            self._bars.update(task.id, visible=False)
        inner = self._bars.add_task(text, total=None)
        self.update(text, outer[0].completed if outer else 0.0)
        _shown.append(self)
        try:
            with shown:
                yield
        finally:
            _shown.remove(self)
            self._bars.remove_task(inner)
            for task in outer:
                self._bars.update(task.id, visible=True)

    def update(self, text: str, share: float) -> None:
        """Change the text and the share of the work that is done."""
        for task in self._bars.tasks[-1:]:
            self._bars.update(task.id, description=text, completed=share, total=1.0 if share else None)

    def part(self, text: str, done: int, total: int) -> Callable[[float], None]:
        """Return a callback for the share of one part that is done, which comes after `done` of `total` parts."""
        return lambda share: self.update(text, (done + share) / total)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Print the warnings of the block after it, each once."""
        with catch_warnings(record=True) as noted:
            simplefilter("default")
            yield
        for sentence in dict.fromkeys(str(warning.message) for warning in noted):
            self.console.print(f"[yellow]beware:[/] {escape(sentence)}", highlight=False, soft_wrap=True)

    @contextmanager
    def _printing(self) -> Iterator[None]:
        over, began = threading.Event(), time.monotonic()

        def lines() -> None:
            while not over.wait(OFTEN if time.monotonic() - began < AT_FIRST else SELDOM):
                task = self._bars.tasks[-1]
                done = f"{task.completed:4.0%}  " if task.completed else ""
                line = f"{done}{task.description}  ({task.elapsed:.0f} s)"
                self.console.print(line, highlight=False, markup=False, soft_wrap=True)

        thread = threading.Thread(target=lines, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
