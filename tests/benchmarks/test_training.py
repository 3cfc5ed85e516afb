"""`tokenloom bench training`: every objective takes a step, beside the dense way on the same network."""

import json
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch

from benchmarks import bench_training
from benchmarks.bench_training import CASES, TrainingSize, Way
from tests.cli.helpers import Shell

SMALL = ["--size.width", "16", "--size.depth", "2", "--size.heads", "2", "--size.vocab", "50", "--size.length", "6"]
TINY = TrainingSize(width=16, depth=2, heads=2, vocab=50, length=6, batch=16)


@pytest.mark.parametrize("name", CASES)
def test_every_case_takes_a_step_that_reaches_the_weights(name: str) -> None:
    case = CASES[name]
    network = bench_training._network(case, TINY)
    bench_training._step(case, TINY, network, Way())()
    gradient = network.head.bias.grad
    assert isinstance(gradient, torch.Tensor)
    assert bool(gradient.any())


def here(code: str, what: str) -> tuple[float, float]:
    """Run code in this process that is meant for another, whose start takes seconds."""
    with redirect_stdout(StringIO()) as printed:
        exec(code, {})
    before, most = json.loads(printed.getvalue())
    return before, most


def test_a_case_is_measured_with_its_dense_reference(monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    monkeypatch.setattr(bench_training, "in_a_process", here)
    monkeypatch.setattr(bench_training, "resident", lambda: 1.0)
    monkeypatch.setattr(bench_training, "peak", lambda: 1.5)
    options = ["--memory-batch", "2", "--turns", "1", "--only", "next token"]
    rows = shell.json("bench", "training", *SMALL, *options)["rows"]
    assert [row["name"] for row in rows] == ["causal, dense cross-entropy", "next token"]
    assert rows[0]["memory_ratio"] == rows[0]["step_memory_ratio"] == 1
    assert rows[1]["gigabytes"] == 1.5
    assert all(row["time_ratio"]["median"] > 0 for row in rows)
