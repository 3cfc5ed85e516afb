"""The reports of a run while it trains: a status, what to expect of it, and metrics, which never end a run.

What cannot be written to metrics.jsonl now is kept and written later, and only whole lines are.
"""

import errno
import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from tokenloom.objectives.likelihood import Likelihood
from tokenloom.support.display import Display
from tokenloom.support.extras import optional
from tokenloom.support.reading import kind_of
from tokenloom.support.words import counted
from tokenloom.training.config import TrainConfig
from tokenloom.training.ending import Clock

EVERY = 20  # steps between two lines of metrics
FIRST_STEPS, FIRST_SECONDS = 4, 2.0
"""Steps and seconds after which the run says what to expect; the first step is slow and does not count."""
FEW = 100
"""The number of sequences below which a figure says how many there were."""
KEPT = 10_000  # the most lines of metrics that wait for room on the disk
Record = dict[str, Any]


class Reporter:
    """Reports to a console and to the writers of metrics; quiet on every process except the first."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        self._display = Display(self.console)
        self.doing = self._display.status
        self._writers: dict[str, Callable[[Record], None]] = {}
        self._figure, self._smoothed = "", Smoothed()

    @contextmanager
    def running(self, config: TrainConfig, start: int, clock: Clock) -> Iterator[None]:
        """Show the status of a loop."""
        if not self.console.quiet:
            self._writers = self._open_writers(config, config.folder)
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
        shown = f"mean loss ({self._config.objective}) {self._smoothed(loss):.4f}"
        self._display.update(f"step {step:,}  {shown}  {speed:,.0f} tokens/s{self._figure}", min(1.0, share))
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
        if end < (warmup := self._config.optimiser.warmup):
            self.say(
                f"the warm-up of {warmup:,} steps is longer than the run, whose learning rate ends at "
                f"{end / warmup:.0%} of --optimiser.lr; lower --optimiser.warmup"
            )

    def validated(
        self, step: int, figures: Mapping[str, Likelihood], entropy: float | None, characters: float | None = None
    ) -> None:
        """Report a validation figure, or one for each of several processes, with the characters per token of text."""
        exact = "" if entropy is None else f" (entropy {entropy:.4f})"
        several, first = len(figures) > 1, next(iter(figures.values()))
        self._figure = f"  valid {first} nats{exact}"
        words = (f"{name if several else ''} {in_nats(figure, characters)}" for name, figure in figures.items())
        self.say(f"step {step:,}: validation {kind(first)}{','.join(words)}{exact}")
        record = {"step": step, "valid_nats": first.per_token, "valid_standard_error": first.per_token_error}
        for name, figure in figures.items() if several else ():
            record |= {f"valid_nats_{name}": figure.per_token, f"valid_standard_error_{name}": figure.per_token_error}
        if characters is not None:
            record["valid_nats_per_character"] = first.per_token / characters
        self._write(record | {"entropy": entropy})

    def observed(self, step: int, found: Record) -> None:
        """Report the figures and texts of samples."""
        words = (f"{name.replace('_', ' ')} {value:.4g}" for name, value in found.items() if isinstance(value, float))
        self.say(f"step {step:,}: {', '.join(words)}")
        self._write({"step": step} | found)

    def say(self, sentence: str) -> None:
        """Print a sentence above the status."""
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)

    def _open_writers(self, config: TrainConfig, folder: Path) -> dict[str, Callable[[Record], None]]:
        """Return what every record goes to; a missing package is refused here, its writer begins with a record."""
        found: dict[str, Callable[[Record], None]] = {"metrics": MetricsFile(folder / "metrics.jsonl", self.say)}
        if config.run.tensorboard:
            board = cache(partial(optional("torch.utils.tensorboard", "train").SummaryWriter, str(folder)))
            found["TensorBoard"] = lambda record: _log_scalars(board(), record)
        if config.run.wandb is not None:
            run = cache(partial(optional("wandb", "wandb").init, project=config.run.wandb, name=folder.name))
            found["Weights & Biases"] = lambda record: run().log(record, step=record["step"])
        return found

    def _write(self, record: Record) -> None:
        for name, write in list(self._writers.items()):
            try:
                write(record)
            except Exception as error:  # whatever it is, metrics must not end a run
                del self._writers[name]
                self.say(f"{name} failed ({type(error).__name__}: {error}); the run continues without it")


class Smoothed:
    """A mean over the last values, each weighted 2% less than the next."""

    def __init__(self) -> None:
        self.sum = self.weight = 0.0

    def __call__(self, value: float) -> float:
        if math.isfinite(value):
            self.sum, self.weight = 0.98 * self.sum + value, 0.98 * self.weight + 1
        return self.sum / self.weight if self.weight else value


def kind(figure: Likelihood) -> str:
    """Name what a figure is: a bound, unless it is exact."""
    return "negative log-likelihood" if figure.exact else "bound"


def in_nats(figure: Likelihood, characters: float | None) -> str:
    """Write a figure per token and, of text with so many characters to a token, per character; few rows are counted."""
    few = f" ({counted(figure.sequences, 'sequence')})" if figure.sequences < FEW else ""
    if characters == 1:
        return f"{figure} nats per character{few}"
    each = "" if characters is None else f", {figure.per_token / characters:.4f} per character"
    return f"{figure} nats per token{each}{few}"


def _log_scalars(board: Any, record: Record) -> None:
    for key, value in record.items():
        if isinstance(value, list):
            board.add_text(key, "\n\n".join(f"    {text}".replace("\n", "\n    ") for text in value), record["step"])
        elif key != "step" and value is not None:
            board.add_scalar(key, value, record["step"])
    board.flush()


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class MetricsFile:
    """A file of JSON lines; half a line that a killed run left is cut off before the first line of this one."""

    def __init__(self, path: Path, say: Callable[[str], None]) -> None:
        self.path, self.say = path, say
        self._waiting: deque[str] = deque(maxlen=KEPT)
        self._begun = False

    def __call__(self, record: Record) -> None:
        """Append a line, with those that waited; a disk that refuses is named once."""
        failing = bool(self._waiting)
        self._waiting.append(json.dumps(record) + "\n")
        try:
            self._append("".join(self._waiting).encode())
        except OSError as error:
            if not failing:
                reason = error.strerror or error
                self.say(f"cannot write {self.path}: {reason}; the run continues and its metrics are written later")
        else:
            if failing:
                self.say(f"{self.path} is written again")
            self._begun = True
            self._waiting.clear()

    def _append(self, content: bytes) -> None:
        """Append all of it or nothing: a file that takes only a part is cut back to what it was."""
        if kind_of(self.path) not in (None, "a file"):
            raise OSError(errno.EINVAL, f"it is {kind_of(self.path)}, not a file")  # opening a pipe would wait for ever
        with self.path.open("a+b", buffering=0) as file:
            before = file.seek(0, os.SEEK_END)
            if not self._begun:
                file.seek(0)
                before = file.read().rfind(b"\n") + 1
                file.truncate(before)
            try:
                if file.write(content) < len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(before)
                raise
