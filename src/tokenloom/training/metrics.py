"""Metrics that never end a run: what cannot be written now is kept and written later, and only whole lines are."""

import errno
import json
import os
from collections import deque
from collections.abc import Callable
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
    """A file of JSON lines; a half line of a killed run is cut off before the first of this one."""

    def __init__(self, path: Path, say: Say) -> None:
        self.path, self.say = path, say
        self._waiting: deque[str] = deque(maxlen=KEPT)
        self._failing = False
        self._begun = False

    def __call__(self, record: Record) -> None:
        """Append a line, with those that waited; a disk that refuses is named once."""
        self._waiting.append(json.dumps(record) + "\n")
        try:
            if not self._begun:
                _cut_half_line(self.path)
            _append(self.path, "".join(self._waiting).encode())
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


def _append(path: Path, content: bytes) -> None:
    """All of it or nothing: a file that takes only a part is cut back to what it was."""
    if kind_of(path) not in (None, "a file"):
        raise OSError(errno.EINVAL, f"it is {kind_of(path)}, not a file")  # nobody reads a pipe, and it would wait
    with path.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            if file.write(content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            file.truncate(before)
            raise


def _cut_half_line(path: Path) -> None:
    if path.is_file():
        content = path.read_bytes()
        if not content.endswith(b"\n"):
            os.truncate(path, content.rfind(b"\n") + 1)


class _Outside:
    """A writer of another package: if it fails it is named and no longer asked."""

    def __init__(self, name: str, say: Say, make: Callable[[], Callable[[Record], None]]) -> None:
        self.name, self.say = name, say
        self._write: Callable[[Record], None] | None = None
        self._try(lambda: setattr(self, "_write", make()))

    def __call__(self, record: Record) -> None:
        if self._write is not None:
            write = self._write
            self._try(lambda: write(record))

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # whatever it is, metrics must not end a run
            self._write = None
            self.say(f"{self.name} failed ({type(error).__name__}: {error}); the run continues without it")


def writers(config: TrainConfig, folder: Path, say: Say) -> list[Callable[[Record], None]]:
    """What every line of metrics goes to: metrics.jsonl, and TensorBoard and Weights & Biases on request."""
    found: list[Callable[[Record], None]] = [MetricsFile(folder / "metrics.jsonl", say)]
    if config.run.tensorboard:
        module = optional("torch.utils.tensorboard", "train")  # a missing package is refused, not passed over
        found.append(_Outside("TensorBoard", say, lambda: _board(module.SummaryWriter(str(folder)))))
    if config.run.wandb is not None:
        wandb, project = optional("wandb", "wandb"), config.run.wandb
        found.append(_Outside("Weights & Biases", say, lambda: _log(wandb.init(project=project, name=folder.name))))
    return found


def _board(board: Any) -> Callable[[Record], None]:
    def write(record: Record) -> None:
        for key, value in record.items():
            if key != "step" and value is not None:
                board.add_scalar(key, value, record["step"])
        board.flush()

    return write


def _log(run: Any) -> Callable[[Record], None]:
    return lambda record: run.log(record, step=record["step"])
