"""When a run ends: its steps are taken, its minutes are used, or a signal asks for it."""

import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tokenloom.support.words import counted
from tokenloom.training.config import TrainConfig

FORWARD = 0.7  # the cost of validating a batch, in steps on it: two terms, each without the backward pass
MARGIN = 1.2
SAME = 0.5
"""Seconds within which a second signal belongs to the first: a launcher passes on the Ctrl-C that its workers got."""


class Clock:
    """The time of a run, at most `limit` minutes, with some of it kept back for what comes after the last step."""

    def __init__(self, limit: float | None) -> None:
        self.limit = math.inf if limit is None else limit * 60
        self.before = 0.0  # seconds that earlier parts of the run took
        self._reserve = 0.0
        self._took: dict[str, float] = {}
        self._started = time.monotonic()

    @property
    def minutes(self) -> float:
        """Minutes of the whole run."""
        return (self.before + time.monotonic() - self._started) / 60

    def left(self) -> float:
        """Return the seconds left for further steps."""
        return self.limit - self._reserve - self.minutes * 60

    def share(self) -> float:
        """Return the part of the time for steps that is over, in [0, 1]."""
        return min(1.0, self.minutes * 60 / max(1e-9, self.limit - self._reserve))

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """Measure how long a step, a figure or saving takes; a pause of the machine counts only in part."""
        begin = time.monotonic()
        yield
        took = time.monotonic() - begin
        self._took[what] = min(took, 2 * self._took.get(what, took))

    def over(self, validation: float) -> bool:
        """Return whether a further step would leave too little time for the end.

        The end takes as long as the last figure and saving did; before the first, a validation of `validation` batches
        is guessed from the steps.  At most a quarter of the time is kept back.
        """
        step = self._took.get("step", 0.0)
        end = self._took.get("figure", FORWARD * validation * step) + self._took.get("saving", step)
        self._reserve = min(MARGIN * end, self.limit / 4)
        return self.left() < step


def ended(config: TrainConfig, step: int, minutes: float) -> str | None:
    """Return a sentence if a run is finished, with the options that continue it; else None."""
    steps = [f"--max-steps {2 * step}"] if step >= (config.max_steps or math.inf) else []
    longer = [f"--max-minutes {2 * minutes:.3g}"] if minutes >= (config.max_minutes or math.inf) else []
    if not steps + longer:
        return None
    reached, more = f"{counted(step, 'step')} in {minutes:.1f} minutes", " ".join(steps + longer)
    return (
        f"the run is finished ({reached} since its start) and nothing is left to do; to train it further, pass {more}"
    )


class Stopping:
    """The first signal, whose `number` is kept, asks for an end with a checkpoint; the second is obeyed at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.number: int | None = None
        self._asked = 0.0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals inside the block, and restore the handlers afterwards."""
        allowed = threading.current_thread() is threading.main_thread()  # elsewhere Python allows no handler
        numbers = (signal.SIGINT, signal.SIGTERM) if allowed else ()
        before = {number: signal.signal(number, self._hear) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler or signal.SIG_DFL)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self.number is None:
            self.number, self._asked = number, time.monotonic()
            self.say("stopping after this step, with a checkpoint; a second Ctrl-C or signal stops at once, without it")
        elif time.monotonic() - self._asked > SAME:
            self.say("stopped at once, without a further checkpoint")
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            sys.exit(128 + number)
