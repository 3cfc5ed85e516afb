"""Tiny runs, in this process or as real ones."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tokenloom.training.build import resolve
from tokenloom.training.config import TrainConfig, recipe

TINY = [
    "--recipe", "markov", "--data.vocab-size", "5", "--data.length", "8", "--data.rows", "300",
    "--network.width", "16", "--network.depth", "1", "--network.heads", "2", "--network.condition", "8",
    "--optimiser.batch", "8", "--optimiser.warmup", "5", "--run.valid-rows", "64", "--run.validate-every", "1000",
]  # fmt: skip


def tiny(out: Path, **changes: object) -> TrainConfig:
    """The same run as TINY, as a config."""
    config = recipe("markov")
    config = replace(
        config,
        out=str(out),
        max_minutes=None,
        max_steps=20,
        data=replace(config.data, vocab_size=5, length=8, rows=300),
        network=replace(config.network, width=16, depth=1, heads=2, condition=8),
        optimiser=replace(config.optimiser, batch=8, warmup=5),
        run=replace(config.run, valid_rows=64),
    )
    return resolve(replace(config, **changes))  # type: ignore[arg-type]


def launcher(processes: int) -> list[str]:
    """torchrun on a free port."""
    rendezvous = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), *rendezvous]


def start(*arguments: str, processes: int = 1) -> "subprocess.Popen[str]":
    """A real `tokenloom train`, one thread a process."""
    command = [*([sys.executable] if processes == 1 else launcher(processes)), "-m", "tokenloom", "train", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def finish(process: "subprocess.Popen[str]", expected: int = 0) -> str:
    """Wait for it; its output."""
    output, _ = process.communicate(timeout=180)
    assert process.returncode == expected, output[-3000:]
    return output


def losses(folder: Path) -> dict[int, float]:
    """The loss of every step that was written down."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {record["step"]: record["loss"] for record in records if "loss" in record}


def weights(folder: Path, step: int) -> dict[str, bytes]:
    """The files of a checkpoint."""
    checkpoint = folder / "checkpoints" / f"step_{step:09d}"
    return {file.name: file.read_bytes() for file in checkpoint.glob("*.safetensors")}
