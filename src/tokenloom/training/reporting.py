"""The reports of a run while it trains: a status, what to expect of it, and lines of metrics."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from rich.console import Console

from tokenloom.objectives.likelihood import Likelihood
from tokenloom.support.display import Display
from tokenloom.support.words import counted
from tokenloom.training.clock import Clock
from tokenloom.training.config import TrainConfig
from tokenloom.training.metrics import Record, writers

EVERY = 20
"""Steps between two lines of metrics."""
FIRST_STEPS, FIRST_SECONDS = 4, 2.0
"""Steps and seconds after which the run says what to expect; the first step is slow and does not count."""


class Reporter:
    """Reports to a console and to the writers of metrics; quiet on every process except the first."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        self.quiet = quiet
        self._display = Display(self.console)
        self._writers: list[Callable[[Record], None]] = []
        self._figure = ""

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Show what is being done until it is done."""
        return self._display.status(what)

    @contextmanager
    def running(self, config: TrainConfig, start: int, clock: Clock) -> Iterator[None]:
        """Show the status of a loop."""
        if not self.quiet:
            self._writers = writers(config, Path(config.out or ""), self.say)
        self._config, self._clock, self._start, self._expected = config, clock, start, False
        self._mark = self._first = (time.monotonic(), start)
        with self._display.status("the first step"):
            yield

    def step(self, step: int, loss: float, rate: float, tokens: int) -> None:
        """Report a step; now and then it becomes a line of metrics."""
        now = time.monotonic()
        if step == self._start + 1:
            self._first = (now, step)
        then, before = self._mark
        speed = tokens * (step - before) / max(1e-9, now - then)
        if step <= 3 or step % EVERY == 0:
            self._mark = (now, step)
            self._write({"step": step, "loss": loss, "lr": rate, "tokens_per_second": round(speed)})
        share = max(self._clock.share(), step / (self._config.max_steps or math.inf))
        self._display.update(f"step {step:,}  loss {loss:.4f}  {speed:,.0f} tokens/s{self._figure}", min(1.0, share))
        since, first = self._first
        if not self._expected and step - first >= FIRST_STEPS and now - since >= FIRST_SECONDS:
            self._expected = True
            self._expect(step, (now - since) / (step - first), tokens)

    def _expect(self, step: int, seconds: float, tokens: int) -> None:
        """Say how far the run will come at this speed, and when it is validated next."""
        end = int(min(step + self._clock.left() / seconds, self._config.max_steps or math.inf))
        every = self._config.run.validate_every
        following = min(end, (step // every + 1) * every)
        self.say(
            f"{tokens / seconds:,.0f} tokens per second: expect about {counted(end, 'step')} ({end * tokens:,} tokens) "
            f"in {_duration((end - step) * seconds)}, and a validation at step {following:,} "
            f"in {_duration((following - step) * seconds)}"
        )

    def validated(self, step: int, figures: Mapping[str, Likelihood], entropy: float | None) -> None:
        """Report a validation figure, or one for each of several processes."""
        exact = "" if entropy is None else f" (entropy {entropy:.4f})"
        several = len(figures) > 1
        words = ", ".join(f"{name} {figure}" if several else str(figure) for name, figure in figures.items())
        self._figure = f"  valid {words} nats{exact}"
        self.say(f"step {step:,}: validation bound {words} nats per token{exact}")
        first = next(iter(figures.values()))
        record = {"step": step, "valid_nats": first.per_token, "valid_standard_error": first.per_token_error}
        for name, figure in figures.items() if several else ():
            record |= {f"valid_nats_{name}": figure.per_token, f"valid_standard_error_{name}": figure.per_token_error}
        self._write(record | {"entropy": entropy})

    def say(self, sentence: str) -> None:
        """Print a sentence above the status."""
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def _write(self, record: Record) -> None:
        for write in self._writers:
            write(record)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
