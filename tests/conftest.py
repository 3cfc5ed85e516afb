"""Every test runs with shape and type checks active over the whole package.

`--road` chooses how samplers reach their predictions, for which no law may change: `gathered`, as on an accelerator,
where the host does not ask for values on the way; `compiled`, with every network under torch.compile.
"""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import config

from tests.shapes import shapes_checked

with shapes_checked("tokenloom"):
    import tokenloom.public  # noqa: F401

from tests.cli.helpers import Shell
from tests.training.helpers import saved, tiny
from tokenloom.models import compiled
from tokenloom.models.model import DiffusionModel
from tokenloom.samplers.evaluator import Evaluator

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # commands of a background job would ignore Ctrl-C


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--road", choices=("usual", "gathered", "compiled"), default="usual", help="see tests/conftest.py")


SLOW = (
    "evidence/test_command.py",
    "training/test_several_processes.py",
    "cli/test_many_processes.py",
    "attack/test_slice.py",
    "benchmarks/test_sampling.py",
    "test_docs.py",
)
"""Files that take longest go first, so that no process waits for one of them at the end."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--road") == "gathered":
        items[:] = [item for item in items if item.get_closest_marker("asks") is None]
    items.sort(key=lambda item: not item.path.as_posix().endswith(SLOW))


@pytest.fixture(autouse=True)
def road(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The road that `--road` names."""
    name = request.config.getoption("--road")
    if name == "gathered":
        never_ask(monkeypatch)
    elif name == "compiled":
        monkeypatch.setattr(DiffusionModel, "compiled", True)
        monkeypatch.setattr(compiled, "BACKEND", "eager")
        monkeypatch.setattr(compiled, "call", partial(_unchecked, compiled.call))


def _unchecked(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call without shape checks, which cannot be traced where the number of rows is a variable."""
    before = config.jaxtyping_disable
    config.update("jaxtyping_disable", True)
    try:
        return call(*arguments, **options)
    finally:
        config.update("jaxtyping_disable", before)


def never_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """No evaluator asks for values on the way, and no tensor says that asking it is free."""
    monkeypatch.setattr(Evaluator, "asks", False)
    monkeypatch.setattr(torch.Tensor, "is_cpu", False)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20260)


@pytest.fixture(scope="session")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tiny markov recipe whose network was not trained, for all tests to read."""
    folder = tmp_path_factory.mktemp("runs") / "markov"
    saved(tiny(folder), folder)
    return folder


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(capsys)


@pytest.fixture
def as_a_user() -> Iterator[None]:
    """Shape checks off: what a wrong input meets outside the tests."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
