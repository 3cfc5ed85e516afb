"""The folder of a run: whether a new run may begin in it, and the state that an old one resumes from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenloom.models.checkpoint import Checkpoint, checkpoints, newest_intact, read_checkpoint
from tokenloom.support.checks import check_least
from tokenloom.support.files import check_ours
from tokenloom.support.registry import build
from tokenloom.training.config import TrainConfig, check_same, from_record, read_config
from tokenloom.training.reporting import Reporter

PARTS = ("config.json", "metrics.jsonl", "checkpoints", "best", "model", "evaluation", "events.out.*", "wandb", ".*")
"""Patterns of what a run leaves in its folder."""


@dataclass(frozen=True)
class State:
    """The contents of state.json beside the step."""

    best: float | None
    """The best validation figure so far; None before the first, as JSON has no infinity."""
    averaged: int
    """Steps in the average of the weights."""
    rows_seen: int
    minutes: float
    done: bool
    """True if the run came to its end, with its model written."""
    config: dict[str, Any]


def check_free(folder: Path) -> None:
    """Raise unless a new run may begin in a folder: it holds no checkpoint and nothing that is not of a run."""
    remedy = "choose another --out"
    if checkpoints(folder / "checkpoints"):
        raise ValueError(f"{folder} already holds a run: continue it with --resume {folder}, or {remedy}")
    check_ours(folder, PARTS, "a run", remedy)
    if (folder / "config.json").exists():
        try:
            read_config(folder / "config.json")
        except ValueError as error:
            raise ValueError(f"{error}; a new run would replace it, so {remedy}") from error


def find_checkpoint(folder: Path, config: TrainConfig, reporter: Reporter) -> Checkpoint:
    """Read the newest intact checkpoint of a run, of the same config; damaged ones are named and passed over."""
    path, damaged = newest_intact(folder / "checkpoints")
    for sentence in damaged:
        reporter.say(sentence)
    if path is None:
        raise ValueError(f"{folder} holds no intact checkpoint to resume from")
    saved = read_checkpoint(path)
    state = build(State, saved.state, f"the state of {path}")
    check_least(state, averaged=0, rows_seen=0, minutes=0)
    check_same(from_record(state.config), config)
    reporter.say(f"resuming from step {saved.step}")
    return saved
