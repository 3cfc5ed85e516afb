"""The status of long work: a bar that moves on a terminal, a plain line now and then where the output is piped."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

OFTEN, SELDOM, AT_FIRST = 1.5, 10.0, 30.0
"""Seconds between two lines in the first `AT_FIRST` seconds, and afterwards."""


class Display:
    """A status that stays until it changes; of nested ones the innermost is visible."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._text, self._share, self._since = "", 0.0, 0.0  # the time is 0 outside every status
        self._bar: tuple[Progress, TaskID] | None = None

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """Display a text, with its age, until the block ends."""
        before = self._text, self._share, self._since
        shown = nullcontext() if self._since else self._moving() if self.console.is_terminal else self._printing()
        try:
            with shown:
                self._since = time.monotonic()
                self.update(text, self._share)
                yield
        finally:
            self._text, self._share, self._since = before
            self.update(self._text, self._share)

    def update(self, text: str, share: float) -> None:
        """Change the text and the share of the work that is done."""
        self._text, self._share = text, share
        if self._bar is not None:
            progress, task = self._bar
            progress.update(task, description=text, completed=share, total=1.0 if share else None)

    @contextmanager
    def _moving(self) -> Iterator[None]:
        columns = (SpinnerColumn(), BarColumn(20), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            self._bar = progress, progress.add_task("", total=None)
            try:
                yield
            finally:
                self._bar = None

    @contextmanager
    def _printing(self) -> Iterator[None]:
        over, began = threading.Event(), time.monotonic()

        def lines() -> None:
            while not over.wait(OFTEN if time.monotonic() - began < AT_FIRST else SELDOM):
                done = f"{self._share:4.0%}  " if self._share else ""
                line = f"{done}{self._text}  ({time.monotonic() - self._since:.0f} s)"
                self.console.print(line, highlight=False, markup=False, soft_wrap=True)

        thread = threading.Thread(target=lines, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
