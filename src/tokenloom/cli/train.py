"""`tokenloom train`: train any method on any data with one command."""

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from tokenloom.cli.observing import observer_of
from tokenloom.cli.ranks import ranks
from tokenloom.cli.registry import COMMANDS, factory, read_ahead
from tokenloom.cli.sweeping import sweep
from tokenloom.data.base import SOURCES
from tokenloom.nn.base import NETWORKS
from tokenloom.support.addresses import local
from tokenloom.support.words import counted
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig, read_config
from tokenloom.training.folder import check_free, run_config
from tokenloom.training.loop import Result
from tokenloom.training.loop import train as run_training
from tokenloom.training.recipes import recipe, settings_from
from tokenloom.training.reporting import Reporter, in_nats, kind


@COMMANDS.register("train")
@factory
def train_command(args: Sequence[str]) -> Callable[..., None]:
    """Return the command with the defaults of the recipe, config or run that the arguments name."""
    default = _default(args)

    def train(
        settings: Annotated[TrainConfig, tyro.conf.arg(name="")] = default,
        config: str | None = None,
        resume: str | None = None,
        workers: int = 1,
        cluster: Literal["local", "slurm"] = "local",
    ) -> None:
        """Train a model: a recipe, a method, and whatever you override.

        Args:
            config: A file whose settings are the defaults, such as config.json of another run.
            resume: The folder, or address, of a run to resume at its newest checkpoint.
            workers: Processes (or Slurm jobs) to spread the runs of a --sweep over.
            cluster: Where these processes run.
        """
        given = [argument.partition("=")[0][2:].replace("-", "_") for argument in args if argument.startswith("--")]
        ignored = next((name for name in given if name.startswith("network.")), None)
        if ignored is not None and settings.begin is not None:
            raise ValueError(f"--{ignored} changes nothing with --from, whose network is the model's; leave it out")
        chosen = replace(settings, fit=tuple(name for name in settings.fit if name not in given))
        if settings.sweep and resume is None:
            sweep(chosen, workers, cluster)
            return
        if workers != 1 or cluster != "local":
            raise ValueError("--workers and --cluster spread the runs of a --sweep; name the options that it varies")
        resolved = resolve(chosen)
        out, folder, first = resolved.out or "", resolved.folder, ranks().first
        reporter = Reporter(quiet=not first)
        if resume is None:
            check_free(out)
        try:
            result = run_training(resolved, resume is not None, reporter, observer_of(resolved) if first else None)
        finally:
            with suppress(OSError):
                folder.rmdir()  # only an empty folder can be removed: a run that never began
        if result is not None and first:
            console = Console(markup=False)  # a folder may have brackets in its name
            console.print(result_table(resolved, result))
            for what, command in (("draw from it", "sample"), ("score it", "evaluate"), ("watch it draw", "play")):
                line = f"{what:14} tokenloom {command} {shlex.quote(out)}"
                console.print(line, highlight=False, soft_wrap=True)
        if result is not None and result.stopped_by is not None:
            reporter.say(f"interrupted; resume with: tokenloom train --resume {shlex.quote(out)}")
            sys.exit(128 + result.stopped_by)

    return train


def _default(args: Sequence[str]) -> TrainConfig:
    """Read --resume, else --config, else --from, else --recipe ahead, so that their values show as defaults.

    Without any of them a --data.path is text of the user's own.
    """
    if (run := read_ahead(args, "--resume")) is not None:
        return run_config(run)
    if (file := read_ahead(args, "--config")) is not None:
        config = replace(read_config(local(file)), out=None)
    elif (model := read_ahead(args, "--from")) is not None:
        config = settings_from(model, read_ahead(args, "--lora") is not None)
    else:
        own_text = read_ahead(args, "--data.path") is not None and read_ahead(args, "--data.kind") in (None, "text")
        config = recipe(read_ahead(args, "--recipe") or ("text" if own_text else "markov"))
    for part in ("data", "network"):
        kind, before = read_ahead(args, f"--{part}.kind"), getattr(config, part)
        if kind is not None and kind != before.kind:  # options of another kind keep what the two have in common
            fresh: Any = SOURCES[kind](kind=kind) if part == "data" else NETWORKS[kind].Options(kind=kind)
            shared = {item.name for item in fields(fresh)} & {item.name for item in fields(before)} - {"kind"}
            changed = replace(fresh, **{name: getattr(before, name) for name in shared})
            config = replace(config, **{part: changed})
    return config


def result_table(config: TrainConfig, result: Result) -> Table:
    """Return a table of what was trained and what it reached."""
    table = Table(title=f"{config.recipe}: {config.out}", title_justify="left", show_header=False)
    resumed = f" since step {result.resumed_at:,}" if result.resumed_at else ""
    steps = counted(result.steps, "step")
    table.add_row("method", f"{config.method}, predicts {result.predicts}, minimises {config.objective}")
    adapters = "" if config.lora is None else f", {result.trained:,} of them trained (rank {config.lora})"
    table.add_row("network", f"{result.network}, {result.parameters:,} parameters{adapters}")
    table.add_row("trained", f"{steps}, {result.tokens:,} tokens, {result.minutes:.1f} minutes{resumed}")
    for name, figure in result.figures.items():
        which = f"validation {kind(figure)}" if len(result.figures) == 1 else f"{kind(figure)}, {name}"
        table.add_row(which, in_nats(figure, result.characters))
    if result.entropy is not None:
        table.add_row("exact entropy", f"{result.entropy:.4f} nats per token")
    table.add_row("model", f"{config.out}/model")
    return table
