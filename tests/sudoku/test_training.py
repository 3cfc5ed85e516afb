"""The grid network trains under every process, on puzzles with one solution, and resumes where it stopped."""

from pathlib import Path

import pytest

from tests.training.helpers import tiny, train, weights
from tokenloom.models.store import load_model
from tokenloom.sudoku.data import SudokuSource
from tokenloom.sudoku.network import GridNetwork, GridOptions
from tokenloom.training.batches import validate
from tokenloom.training.build import build_model
from tokenloom.training.config import TrainConfig


def config_of(out: Path, method: str, steps: int) -> TrainConfig:
    data = SudokuSource(side=6, givens=(10, 26), rows=60, puzzles="unique")
    network = GridOptions(width=8, depth=2, loops=2, condition=8)
    parts = {"optimiser": {"lr": 1e-2, "decay": "constant", "ema": 0.999}, "run": {"valid_rows": 8}}
    return tiny(out, method=method, max_steps=steps, data=data, network=network, **parts)


@pytest.fixture(autouse=True)
def own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The puzzles are found once for all tests here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))


@pytest.mark.parametrize("method", ["udm", "mdm", "audm"])
def test_the_grid_network_learns(method: str, tmp_path: Path) -> None:
    config = config_of(tmp_path / "run", method, 40)
    data = config.data.load()
    untrained = validate(build_model(config, data), data, 8, 1)
    result = train(config)
    assert all(figure.per_token < untrained.per_token - 0.2 for figure in result.figures.values())
    assert isinstance(load_model(tmp_path / "run" / "model").network, GridNetwork)


def test_a_resumed_run_on_puzzles_is_the_uninterrupted_one(tmp_path: Path) -> None:
    train(config_of(tmp_path / "whole", "udm", 12))
    train(config_of(tmp_path / "parts", "udm", 5))
    train(config_of(tmp_path / "parts", "udm", 12), resume=True)
    whole = weights(tmp_path / "whole", 12)
    assert len(whole) == 3  # the model, its average and the moments of its gradients
    assert weights(tmp_path / "parts", 12) == whole
