"""Tiny runs, in this process or as real ones."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

import tokenloom as tl
from tokenloom.training import loop
from tokenloom.training.build import build_model, resolve
from tokenloom.training.config import TrainConfig
from tokenloom.training.loop import Result
from tokenloom.training.recipes import recipe
from tokenloom.training.reporting import Reporter

TINY = [
    "--recipe", "markov", "--data.vocab-size", "5", "--data.length", "8", "--data.rows", "300",
    "--network.width", "16", "--network.depth", "1", "--network.heads", "2", "--network.condition", "8",
    "--optimiser.batch", "8", "--optimiser.warmup", "5", "--run.valid-rows", "64", "--run.validate-every", "1000",
]  # fmt: skip


SMALL = {
    "data": {"vocab_size": 5, "length": 8, "rows": 300},
    "network": {"width": 16, "depth": 1, "heads": 2, "condition": 8},
    "optimiser": {"batch": 8, "warmup": 5},
    "run": {"valid_rows": 64},
}


def tiny(out: Path, **changes: Any) -> TrainConfig:
    """The same run as TINY, as a config; a dictionary changes options of a part."""
    config = replace(recipe("markov"), out=str(out), max_minutes=None, max_steps=20)
    for part, values in (*SMALL.items(), *changes.items()):
        value = replace(getattr(config, part), **values) if isinstance(values, dict) else values
        config = replace(config, **{part: value})
    return resolve(config)


def train(config: TrainConfig, resume: bool = False, reporter: Reporter | None = None) -> Result:
    """Train, quietly unless a reporter is passed, a run that is not finished."""
    result = loop.train(config, resume, reporter or Reporter(quiet=True))
    assert result is not None
    return result


def awake(model: tl.DiffusionModel, std: float = 0.2) -> tl.DiffusionModel:
    """The model with weights away from zero, the same at every call, so that every path is open."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    return model.eval()


def saved(config: TrainConfig, folder: Path, std: float = 0.2) -> tl.DiffusionModel:
    """A random model in a run folder, as training would have left it."""
    model = awake(build_model(config, config.data.load()), std).describe(step=0)
    model.save(folder / "model")
    return model


def start(*command: str) -> "subprocess.Popen[str]":
    """A real process, with one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=root
    )


def finish(process: "subprocess.Popen[str]", expected: int = 0) -> str:
    """Wait for it; its output."""
    output, _ = process.communicate(timeout=180)
    assert process.returncode == expected, output[-3000:]
    return output


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait for something that other processes or threads bring about."""
    end = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.01)


def records(folder: Path) -> list[dict[str, float]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder: Path) -> dict[int, float]:
    """The loss of every step that was written down."""
    return {int(record["step"]): record["loss"] for record in records(folder) if "loss" in record}


def weights(folder: Path, step: int) -> dict[str, bytes]:
    """The files of a checkpoint."""
    checkpoint = folder / "checkpoints" / f"step_{step:09d}"
    return {file.name: file.read_bytes() for file in checkpoint.glob("*.safetensors")}
