"""Fixtures of the tests on text."""

from pathlib import Path

import pytest

from tests.data.helpers import STORIES


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture
def stories(tmp_path: Path) -> Path:
    path = tmp_path / "stories.txt"
    path.write_text("<|endoftext|>\n".join(STORIES))
    return path
