"""Ending a run from outside: the first signal asks for an end with a checkpoint, the second is obeyed at once."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SAME = 0.5
"""Seconds within which a second signal belongs to the first: a launcher passes on the Ctrl-C that its workers got."""


class Stopping:
    """`number` is the signal that asked for an end, or None."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.number: int | None = None
        self._asked = 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals inside the block, and restore the handlers afterwards."""
        if threading.current_thread() is not threading.main_thread():  # where Python allows no handler
            yield
            return
        before = {number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number, self._asked = number, time.monotonic()
            by_key = "press Ctrl-C again to stop at once without it"
            again = by_key if number == signal.SIGINT else "a second signal is obeyed at once, without it"
            self.say(f"stopping after this step, with a checkpoint; {again}")
        elif time.monotonic() - self._asked > SAME:
            self.say("stopped at once, without a further checkpoint")
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            sys.exit(128 + number)
