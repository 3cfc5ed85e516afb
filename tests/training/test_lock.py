"""One training per folder: the lock ends with its process, and says whose it is."""

import errno
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from tokenloom.training.lock import locked


@contextmanager
def another_process(folder: Path, rank: int = 0, processes: int = 1) -> Iterator[int]:
    """A process that holds the lock until it is killed."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    child = os.fork()
    if child == 0:
        with locked(folder, rank, processes):
            (folder / "held").touch()
            signal.pause()
        os._exit(1)
    end = time.monotonic() + 20
    while not (folder / "held").exists() and time.monotonic() < end:
        time.sleep(0.005)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_second_training_is_told_who_holds_the_folder_until_that_process_dies(tmp_path: Path) -> None:
    with another_process(tmp_path) as holder:
        sentence = (
            rf"^{tmp_path} is being trained by process {holder} \(started 20.*stop it with `kill {holder}`, or ch"
        )
        with pytest.raises(ValueError, match=sentence), locked(tmp_path):
            pass
        assert (tmp_path / ".lock-0").exists()
    with locked(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["held"]


def test_an_orphaned_worker_of_a_larger_run_keeps_the_folder(tmp_path: Path) -> None:
    """Rank 1 of a killed torchrun trains on: neither one process nor two may begin beside it."""
    with another_process(tmp_path, rank=1, processes=2) as orphan:
        with pytest.raises(ValueError, match=f"being trained by process {orphan} "), locked(tmp_path, 0, 1):
            pass
        with locked(tmp_path, 0, 2), pytest.raises(ValueError, match=f"process {orphan} "), locked(tmp_path, 1, 2):
            pass
    with locked(tmp_path, 0, 2), locked(tmp_path, 1, 2):
        assert sorted(path.name for path in tmp_path.glob(".*")) == [".lock-0", ".lock-1"]


def test_a_lock_that_says_nothing_still_holds(tmp_path: Path) -> None:
    with another_process(tmp_path):
        (tmp_path / ".lock-0").write_text("[1")
        with pytest.raises(ValueError, match="is being trained by another process; wait for it"), locked(tmp_path):
            pass


def test_a_disk_without_locks_trains_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    with locked(tmp_path), locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())
