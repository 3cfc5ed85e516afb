"""`tokenloom train`: train any method on any data with one command."""

import os
import shlex
import sys
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
from tokenloom.nn.base import NETWORKS
from tokenloom.support.files import check_writable
from tokenloom.support.words import counted
from tokenloom.training.beginning import settings_from
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig, read_config
from tokenloom.training.loop import Result
from tokenloom.training.loop import train as run_training
from tokenloom.training.recipes import recipe
from tokenloom.training.reporting import Reporter
from tokenloom.training.snapshot import check_free


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
        """Train a model: a recipe, a method, and whatever you override."""
        given = {
            argument.split("=")[0].removeprefix("--").replace("-", "_") for argument in args if argument[:2] == "--"
        }
        resolved = resolve(replace(settings, fit=tuple(name for name in settings.fit if name not in given)))
        if resume is None:
            check_free(Path(resolved.out or ""))
        check_writable(Path(resolved.out or ""))
        try:
            result = run_training(resolved, resume is not None, Reporter(quiet=os.environ.get("RANK", "0") != "0"))
        finally:
            with suppress(OSError):
                Path(resolved.out or "").rmdir()  # which only an empty folder allows: a run that never began
        if result is not None and os.environ.get("RANK", "0") == "0":
            Console().print(result_table(resolved, result))
        if result is not None and result.stopped_by is not None:
            Console(stderr=True).print(
                f"interrupted; resume with: tokenloom train --resume {shlex.quote(str(result.folder))}",
                highlight=False, markup=False, soft_wrap=True,
            )  # fmt: skip
            sys.exit(128 + result.stopped_by)

    return train


def _default(args: Sequence[str]) -> TrainConfig:
    """--resume over --config over --from over --recipe, read ahead so that their values show as defaults."""
    named = {key: read_ahead(args, key) for key in ("--resume", "--config", "--from", "--recipe")}
    if named["--resume"] is not None:
        folder = Path(named["--resume"])
        if not (folder / "config.json").is_file():
            raise ValueError(f"{folder} is not a run to resume: it holds no config.json")
        return replace(read_config(folder / "config.json"), out=str(folder))
    if named["--config"] is not None:
        return _of_kinds(replace(read_config(Path(named["--config"])), out=None), args)
    if named["--from"] is not None:
        return _of_kinds(settings_from(named["--from"]), args)
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


def result_table(config: TrainConfig, result: Result) -> Table:
    """What was trained and what it reached."""
    table = Table(title=f"{config.recipe}: {result.folder}", title_justify="left", show_header=False)
    resumed = f" since step {result.resumed_at:,}" if result.resumed_at else ""
    rows = [
        ("method", f"{config.method}, predicts {result.predicts}, minimises {config.objective}"),
        ("network", f"{result.network}, {result.parameters:,} parameters"),
        (
            "trained",
            f"{counted(result.steps, 'step')}, {result.tokens:,} tokens, {result.minutes:.1f} minutes{resumed}",
        ),
    ]
    for name, figure in result.figures.items():
        which = "validation bound" if len(result.figures) == 1 else f"bound, {name}"
        rows.append((which, f"{figure} nats per token, {counted(figure.sequences, 'sequence')}"))
    if result.entropy is not None:
        rows.append(("exact entropy", f"{result.entropy:.4f} nats per token"))
    rows.append(("model", str(result.folder / "model")))
    for row in rows:
        table.add_row(*row)
    return table
