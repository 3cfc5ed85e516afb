"""What long work looks like: a bar that moves on a terminal, a plain line now and then where the output is piped."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

OFTEN, SELDOM, AT_FIRST = 1.5, 10.0, 30.0
"""Seconds between two lines in the first `AT_FIRST` seconds, and afterwards."""


class Display:
    """A status that is shown until it changes; the innermost `status` is the one that is seen."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._text, self._share, self._since = "", 0.0, time.monotonic()
        self._open = False
        self._bar: tuple[Progress, TaskID] | None = None

    @contextmanager
    def status(self, text: str) -> Iterator[None]:
        """Show a text, with how long it has been true, until the block ends."""
        before = self._text, self._share, self._since
        outermost, self._open = not self._open, True
        self._since = time.monotonic()
        try:
            if not outermost:
                self.update(text, self._share)
                yield
            elif self.console.is_terminal:
                with self._moving(text):
                    yield
            else:
                with self._printing(text):
                    yield
        finally:
            self._text, self._share, self._since = before
            self._open = not outermost
            self.update(self._text, self._share)

    def update(self, text: str, share: float) -> None:
        """Change what is shown, and how much of the work is done."""
        self._text, self._share = text, share
        if self._bar is not None:
            progress, task = self._bar
            progress.update(task, description=text, completed=share, total=1.0 if share else None)

    @contextmanager
    def _moving(self, text: str) -> Iterator[None]:
        columns = (SpinnerColumn(), BarColumn(20), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Progress(*columns, console=self.console, transient=True) as progress:
            self._bar = progress, progress.add_task(text, total=None)
            try:
                yield
            finally:
                self._bar = None

    @contextmanager
    def _printing(self, text: str) -> Iterator[None]:
        self._text, over, began = text, threading.Event(), time.monotonic()

        def lines() -> None:
            while not over.wait(OFTEN if time.monotonic() - began < AT_FIRST else SELDOM):
                done = f"{self._share:4.0%}  " if self._share else ""
                self.console.print(
                    f"{done}{self._text}  ({time.monotonic() - self._since:.0f} s)",
                    highlight=False, markup=False, soft_wrap=True,
                )  # fmt: skip

        thread = threading.Thread(target=lines, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
