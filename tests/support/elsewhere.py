"""Addresses to test with, and a file system that fails."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of our own, and nothing in the memory of fsspec."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    MemoryFileSystem.store.clear()
    yield tmp_path / "cache" / "tokenloom"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.fixture(params=["memory", "file"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place with nothing in it."""
    return "memory://bucket/mine" if request.param == "memory" else f"file://{tmp_path}/bucket/mine"


@contextmanager
def failing(calls: int) -> Iterator[None]:
    """Let so many writes to memory:// pass; of the file after them half arrives, and nothing later."""
    done = 0

    def limited(name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def call(fs: MemoryFileSystem, *paths: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done == calls + 1 and name == "put_file":
                content = Path(paths[0]).read_bytes()
                fs.pipe_file(paths[1], content[: len(content) // 2])
            if done > calls:
                raise TimeoutError("the connection was lost")
            return write(fs, *paths, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("put_file", "mv", "rm_file"):
            patch.setattr(MemoryFileSystem, name, limited(name, getattr(MemoryFileSystem, name)))
        yield
