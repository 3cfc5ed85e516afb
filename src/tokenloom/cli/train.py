"""`tokenloom train`: train any method on any data with one command."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from tokenloom.evaluation.records import check_writable
from tokenloom.training.build import resolve
from tokenloom.training.checkpoint import checkpoints
from tokenloom.training.config import TrainConfig, differences, read_config, recipe
from tokenloom.training.loop import Result
from tokenloom.training.loop import train as run_training
from tokenloom.training.reporting import Reporter

MAY_CHANGE = (
    "max_steps",
    "max_minutes",
    "out",
    "run.validate_every",
    "run.checkpoint_every",
    "run.strategy",
    "run.tensorboard",
    "run.wandb",
)
"""What a resumed run may do differently."""


def train_command(args: Sequence[str]) -> Callable[..., None]:
    """The command, with the defaults of the recipe, config or run that the arguments name."""
    default = _default(args)

    def train(
        settings: Annotated[TrainConfig, tyro.conf.arg(name="")] = default,
        config: str | None = None,
        resume: str | None = None,
    ) -> None:
        """Train a model: a recipe, a method, and whatever you override.

        Args:
            settings: The run.
            config: Repeat the run whose config.json this is.
            resume: Go on with the run in this folder, exactly where its newest intact checkpoint stands.
        """
        resolved = resolve(settings)
        if resume is not None:
            _check_same(read_config(Path(resume) / "config.json"), resolved)
        elif checkpoints(Path(resolved.out or "") / "checkpoints"):
            raise ValueError(
                f"{resolved.out} already holds a run: go on with --resume {resolved.out}, or choose another --out"
            )
        check_writable(Path(resolved.out or ""))
        try:
            result = run_training(resolved, resume is not None, Reporter(quiet=os.environ.get("RANK", "0") != "0"))
        finally:
            with suppress(OSError):
                Path(resolved.out or "").rmdir()  # which only an empty folder allows: a run that never began
        if os.environ.get("RANK", "0") == "0":
            Console().print(result_table(resolved, result))

    return train


def _default(args: Sequence[str]) -> TrainConfig:
    """--resume over --config over --recipe, read ahead so that their values show as defaults."""
    named = {key: _value(args, key) for key in ("--resume", "--config", "--recipe")}
    if named["--resume"] is not None:
        folder = Path(named["--resume"])
        if not (folder / "config.json").is_file():
            raise ValueError(f"{folder} is no run to resume: it holds no config.json")
        return replace(read_config(folder / "config.json"), out=str(folder))
    if named["--config"] is not None:
        return replace(read_config(Path(named["--config"])), out=None)
    return recipe(named["--recipe"] or "markov")


def _value(args: Sequence[str], key: str) -> str | None:
    for index, argument in enumerate(args):
        if argument == key and index + 1 < len(args):
            return args[index + 1]
        if argument.startswith(key + "="):
            return argument.removeprefix(key + "=")
    return None


def _check_same(before: TrainConfig, after: TrainConfig) -> None:
    changed = [item for item in differences(before, after) if item.split(" ")[0] not in MAY_CHANGE]
    if changed:
        raise ValueError(f"a resumed run must keep its config; these differ: {', '.join(changed)}")


def result_table(config: TrainConfig, result: Result) -> Table:
    """What was trained and what it reached."""
    table = Table(title=f"{config.recipe}: {result.folder}", title_justify="left", show_header=False)
    resumed = f" since step {result.resumed_at:,}" if result.resumed_at else ""
    predicts = "the next token" if config.method == "ar" else config.predicts
    rows = [
        ("method", f"{config.method}, predicts {predicts}, minimises {config.objective}"),
        ("network", f"{config.network.kind}, {result.parameters:,} parameters"),
        ("trained", f"{result.steps:,} steps, {result.tokens:,} tokens, {result.minutes:.1f} minutes{resumed}"),
        ("validation bound", f"{result.figure} nats a token, {result.figure.sequences} sequences"),
    ]
    if result.entropy is not None:
        rows.append(("exact entropy", f"{result.entropy:.4f} nats a token"))
    rows.append(("model", str(result.folder / "model")))
    for row in rows:
        table.add_row(*row)
    return table
