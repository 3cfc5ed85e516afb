"""Metrics that never end a run: what cannot be written now is kept and written later, and only whole lines are."""

import errno
import json
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tokenloom.support.extras import optional
from tokenloom.support.reading import kind_of
from tokenloom.training.config import TrainConfig

KEPT = 10_000
"""The most lines that wait for room on the disk."""
Record = dict[str, Any]
Say = Callable[[str], None]


class MetricsFile:
    """A file of JSON lines; half a line that a killed run left is cut off before the first line of this one."""

    def __init__(self, path: Path, say: Say) -> None:
        self.path, self.say = path, say
        self._waiting: deque[str] = deque(maxlen=KEPT)
        self._failing = False
        self._begun = False

    def __call__(self, record: Record) -> None:
        """Append a line, with those that waited; a disk that refuses is named once."""
        self._waiting.append(json.dumps(record) + "\n")
        try:
            self._append("".join(self._waiting).encode())
        except OSError as error:
            if not self._failing:
                reason = error.strerror or error
                self.say(f"cannot write {self.path}: {reason}; the run continues and its metrics are written later")
            self._failing = True
            return
        if self._failing:
            self.say(f"{self.path} is written again")
        self._failing, self._begun = False, True
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


class _Outside:
    """A logger of another package, made with the first record; if it fails it is named and no longer used."""

    def __init__(self, name: str, say: Say, make: Callable[[], Any], log: Callable[[Any, Record], None]) -> None:
        self.name, self.say, self._make, self._log = name, say, make, log
        self._logger: Any = None
        self._failed = False

    def __call__(self, record: Record) -> None:
        if self._failed:
            return
        try:
            self._logger = self._logger or self._make()
            self._log(self._logger, record)
        except Exception as error:  # whatever it is, metrics must not end a run
            self._failed = True
            self.say(f"{self.name} failed ({type(error).__name__}: {error}); the run continues without it")


def writers(config: TrainConfig, folder: Path, say: Say) -> list[Callable[[Record], None]]:
    """Return what every record goes to: metrics.jsonl, and TensorBoard and Weights & Biases on request."""
    found: list[Callable[[Record], None]] = [MetricsFile(folder / "metrics.jsonl", say)]
    if config.run.tensorboard:
        board = optional("torch.utils.tensorboard", "train")  # a missing package is refused, not passed over
        found.append(_Outside("TensorBoard", say, lambda: board.SummaryWriter(str(folder)), _log_scalars))
    if config.run.wandb is not None:
        wandb, project = optional("wandb", "wandb"), config.run.wandb
        start = partial(wandb.init, project=project, name=folder.name)
        found.append(_Outside("Weights & Biases", say, start, lambda run, record: run.log(record, step=record["step"])))
    return found


def _log_scalars(board: Any, record: Record) -> None:
    for key, value in record.items():
        if key != "step" and value is not None:
            board.add_scalar(key, value, record["step"])
    board.flush()
