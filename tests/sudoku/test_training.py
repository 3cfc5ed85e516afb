"""The grid network trains under every process, on puzzles with one solution, and resumes where it stopped."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tokenloom.models.checkpoint import newest_intact, read_checkpoint
from tokenloom.models.store import load_model
from tokenloom.sudoku.data import SudokuSource
from tokenloom.sudoku.network import GridNetwork, GridOptions
from tokenloom.training import loop
from tokenloom.training.batches import validate
from tokenloom.training.build import build_model, resolve
from tokenloom.training.config import TrainConfig
from tokenloom.training.recipes import recipe
from tokenloom.training.reporting import Reporter


def config_of(out: Path, method: str, steps: int) -> TrainConfig:
    base = recipe("sudoku6")
    return resolve(
        replace(
            base,
            out=str(out),
            method=method,
            max_minutes=None,
            max_steps=steps,
            data=SudokuSource(side=6, givens=(10, 26), rows=60, puzzles="unique"),
            network=GridOptions(width=8, depth=2, loops=2, condition=8),
            optimiser=replace(base.optimiser, lr=1e-2, batch=8, warmup=5, decay="constant"),
            run=replace(base.run, valid_rows=8),
        )
    )


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The puzzles are found once for all tests here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.mark.parametrize("method", ["udm", "mdm", "audm"])
def test_the_grid_network_learns(method: str, tmp_path: Path) -> None:
    config = config_of(tmp_path / "run", method, 40)
    data = config.data.load()
    untrained = validate(build_model(config, data), data, 8, 1)
    result = loop.train(config, False, Reporter(quiet=True))
    assert result is not None
    assert all(figure.per_token < untrained.per_token - 0.2 for figure in result.figures.values())
    assert isinstance(load_model(tmp_path / "run" / "model").network, GridNetwork)


def test_a_resumed_run_on_puzzles_is_the_uninterrupted_one(tmp_path: Path) -> None:
    loop.train(config_of(tmp_path / "whole", "udm", 12), False, Reporter(quiet=True))
    loop.train(config_of(tmp_path / "parts", "udm", 5), False, Reporter(quiet=True))
    loop.train(config_of(tmp_path / "parts", "udm", 12), True, Reporter(quiet=True))
    whole, parts = (newest_intact(tmp_path / name / "checkpoints")[0] for name in ("whole", "parts"))
    assert whole is not None
    assert parts is not None
    first, second = read_checkpoint(whole), read_checkpoint(parts)
    assert first.step == second.step == 12
    for name, value in first.tensors["model"].items():
        assert torch.equal(value, second.tensors["model"][name]), name
