"""The runs of `tokenloom train --sweep`: one after the other, or spread over processes or Slurm jobs by submitit."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from tokenloom.cli.observing import observer_of
from tokenloom.cli.ranks import check_workers, ranks, spread
from tokenloom.models.checkpoint import checkpoints
from tokenloom.models.store import load_model
from tokenloom.support.files import check_writable, write_json
from tokenloom.support.words import counted
from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig
from tokenloom.training.folder import check_free
from tokenloom.training.loop import train
from tokenloom.training.reporting import Reporter
from tokenloom.training.sweep import members

KEYS = ("per_token", "per_token_error")
"""Figures of a validation that are compared."""


def sweep(config: TrainConfig, workers: int, cluster: str) -> None:
    """Train every run of a sweep that is not finished, and print and write what each reached."""
    check_workers(workers, cluster)
    if ranks().count > 1:
        raise ValueError("a sweep starts its own processes; give --workers instead of torchrun")
    runs, folder = members(config), Path(resolve(config).out or "")
    for run in runs.values():
        if not _begun(run):
            check_free(run.out or "")
    check_writable(folder)
    Console(stderr=True).print(f"{counted(len(runs), 'run')} in {folder}", highlight=False, markup=False)
    if workers > 1 or cluster == "slurm":
        spread(train_each, list(runs.values()), folder / "jobs", workers, cluster)
    else:
        train_each(list(runs.values()))
    figures = {name: load_model(Path(run.out or "") / "model").about for name, run in runs.items()}
    rows: list[dict[str, Any]] = [
        {"run": name, "steps": about.step, **{key: (about.validation or {}).get(key) for key in KEYS}}
        for name, about in figures.items()
    ]
    write_json(folder / "sweep.json", {"config": replace(config, out=str(folder)).record(), "runs": rows})
    table = Table("run", Column("steps", justify="right"), Column("validation", justify="right"), title=str(folder))
    best = min(float(row["per_token"] or "inf") for row in rows)
    for row in rows:
        mark = " (lowest)" if row["per_token"] == best else ""
        table.add_row(row["run"], f"{row['steps']:,}", f"{row['per_token']:.4f} ± {row['per_token_error']:.4f}{mark}")
    Console(markup=False).print(table)


def train_each(runs: Sequence[TrainConfig]) -> None:
    """Train some runs, each resumed where it has begun; an interruption ends all of them."""
    for run in runs:
        result = train(run, _begun(run), Reporter(), observer_of(run))
        if result is not None and result.stopped_by is not None:
            sys.exit(128 + result.stopped_by)


def _begun(run: TrainConfig) -> bool:
    return bool(checkpoints(Path(run.out or "") / "checkpoints"))
