"""What a run says while it trains: a live line, metrics.jsonl, and TensorBoard or Weights & Biases on request."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tokenloom.objectives.likelihood import Likelihood
from tokenloom.support.extras import optional
from tokenloom.training.config import TrainConfig

EVERY = 20
"""Steps between two lines of metrics."""


class Reporter:
    """Quiet on every process except the first."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet)
        self.quiet = quiet
        self.folder: Path | None = None
        self.writers: list[Any] = []
        self._progress: Progress | None = None
        self._mark = (time.monotonic(), 0)
        self._figure = ""

    @contextmanager
    def running(self, config: TrainConfig, start: int) -> Iterator[None]:
        """The live line of a loop."""
        self.folder = Path(config.out or "")
        if not self.quiet:
            self.writers = _writers(config, self.folder)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.console, refresh_per_second=2) as self._progress:
            self._started, self._config = time.monotonic(), config
            self._task = self._progress.add_task(config.out or "", total=1.0, text="")
            self._mark = (time.monotonic(), start)
            yield
        self._progress = None

    def step(self, step: int, loss: float, rate: float, tokens: int) -> None:
        """Report a step; now and then it becomes a line."""
        if step % EVERY and step > 3:
            return
        now, (then, before) = time.monotonic(), self._mark
        speed = tokens * (step - before) / max(1e-9, now - then)
        self._mark = (now, step)
        self._write({"step": step, "loss": loss, "lr": rate, "tokens_per_second": round(speed)})
        if self._progress is not None:
            text = f"step {step}  loss {loss:.4f}  {speed:,.0f} tokens/s  {self._figure}"
            self._progress.update(self._task, completed=self._share(step), text=text)

    def validated(self, step: int, figure: Likelihood, entropy: float | None) -> None:
        """Report a validation figure."""
        exact = "" if entropy is None else f" (entropy {entropy:.4f})"
        self._figure = f"valid {figure} nats{exact}"
        self._write(
            {
                "step": step,
                "valid_nats": figure.per_token,
                "valid_standard_error": figure.per_token_error,
                "entropy": entropy,
            }
        )

    def say(self, sentence: str) -> None:
        """A sentence above the live line."""
        self.console.print(sentence, highlight=False)

    def _share(self, step: int) -> float:
        shares = [0.0]
        if self._config.max_steps:
            shares.append(step / self._config.max_steps)
        if self._config.max_minutes:
            shares.append((time.monotonic() - self._started) / 60 / self._config.max_minutes)
        return min(1.0, max(shares))

    def _write(self, record: dict[str, Any]) -> None:
        if self.quiet or self.folder is None:
            return
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(json.dumps(record) + "\n")
        for writer in self.writers:
            writer(record)


def _writers(config: TrainConfig, folder: Path) -> list[Any]:
    writers: list[Any] = []
    if config.run.tensorboard:
        board = optional("torch.utils.tensorboard", "train").SummaryWriter(str(folder))

        def to_board(record: dict[str, Any]) -> None:
            for key, value in record.items():
                if key != "step" and value is not None:
                    board.add_scalar(key, value, record["step"])
            board.flush()

        writers.append(to_board)
    if config.run.wandb is not None:
        run = optional("wandb", "wandb").init(project=config.run.wandb, name=folder.name)
        writers.append(lambda record: run.log(record, step=record["step"]))
    return writers
