"""Puzzles that are searched once for all tests of Sudoku, and a model that knows nothing of them."""

from pathlib import Path

import pytest
import torch

import tokenloom as tl


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def guesser() -> tl.DiffusionModel:
    """Uniform predictions for side 4: valid now and then."""
    return tl.DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, 4), tl.Masked(4), predicts=tl.Denoiser)
