"""Every test runs with shape and type checks active over the whole package."""

from collections.abc import Iterator

import pytest
import torch
from jaxtyping import config, install_import_hook

with install_import_hook("tokenloom", "beartype.beartype"):
    import tokenloom.public  # noqa: F401

torch.set_num_threads(1)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20260)


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Shape checks off: what a wrong input meets outside the tests."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
