"""`tokenloom train`: train any method on any data with one command."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from tokenloom.cli.registry import COMMANDS, factory, read_ahead
from tokenloom.data.base import SOURCES
from tokenloom.models.checkpoint import checkpoints
from tokenloom.nn.base import NETWORKS
from tokenloom.support.files import check_writable
from tokenloom.training.build import process_of, resolve
from tokenloom.training.config import TrainConfig, differences, read_config
from tokenloom.training.loop import Result
from tokenloom.training.loop import train as run_training
from tokenloom.training.recipes import recipe
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


@COMMANDS.register("train")
@factory
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
            resume: Continue the run in this folder, exactly where its newest intact checkpoint stands.
        """
        resolved = resolve(settings)
        if resume is not None:
            _check_same(read_config(Path(resume) / "config.json"), resolved)
        elif checkpoints(Path(resolved.out or "") / "checkpoints"):
            raise ValueError(
                f"{resolved.out} already holds a run: continue it with --resume {resolved.out}, or choose another --out"
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
    named = {key: read_ahead(args, key) for key in ("--resume", "--config", "--recipe")}
    if named["--resume"] is not None:
        folder = Path(named["--resume"])
        if not (folder / "config.json").is_file():
            raise ValueError(f"{folder} is not a run to resume: it holds no config.json")
        return replace(read_config(folder / "config.json"), out=str(folder))
    if named["--config"] is not None:
        return _of_kinds(replace(read_config(Path(named["--config"])), out=None), args)
    return _of_kinds(recipe(named["--recipe"] or "markov"), args)


def _of_kinds(config: TrainConfig, args: Sequence[str]) -> TrainConfig:
    """The config with the options of another kind of data or network, where the arguments name one."""
    data, network = read_ahead(args, "--data.kind"), read_ahead(args, "--network.kind")
    if data is not None and data != config.data.kind:
        config = replace(config, data=_like(SOURCES[data](kind=data), config.data))
    if network is not None and network != config.network.kind:
        config = replace(config, network=_like(NETWORKS[network].Options(kind=network), config.network))
    return config


def _like(fresh: Any, before: Any) -> Any:
    """Options of another kind, with what the two have in common carried over."""
    shared = {item.name for item in fields(fresh)} & {item.name for item in fields(before)} - {"kind"}
    return replace(fresh, **{name: getattr(before, name) for name in shared})


def _check_same(before: TrainConfig, after: TrainConfig) -> None:
    changed = [item for item in differences(before, after) if item.split(" ")[0] not in MAY_CHANGE]
    if changed:
        raise ValueError(f"a resumed run must keep its config; these differ: {', '.join(changed)}")


def result_table(config: TrainConfig, result: Result) -> Table:
    """What was trained and what it reached."""
    table = Table(title=f"{config.recipe}: {result.folder}", title_justify="left", show_header=False)
    resumed = f" since step {result.resumed_at:,}" if result.resumed_at else ""
    predicts = "the next token" if process_of(config, 2).sequential else config.predicts
    rows = [
        ("method", f"{config.method}, predicts {predicts}, minimises {config.objective}"),
        ("network", f"{config.network.kind}, {result.parameters:,} parameters"),
        ("trained", f"{result.steps:,} steps, {result.tokens:,} tokens, {result.minutes:.1f} minutes{resumed}"),
        ("validation bound", f"{result.figure} nats per token, {result.figure.sequences} sequences"),
    ]
    if result.entropy is not None:
        rows.append(("exact entropy", f"{result.entropy:.4f} nats per token"))
    rows.append(("model", str(result.folder / "model")))
    for row in rows:
        table.add_row(*row)
    return table
