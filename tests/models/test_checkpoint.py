"""Checkpoints: the newest are kept, damage is known, and a write that fails harms nothing."""

import signal
from pathlib import Path

import pytest
import torch

from tokenloom.models.checkpoint import (
    Checkpoint,
    checkpoints,
    damage,
    newest_intact,
    read_checkpoint,
    write_checkpoint,
)


def example(step: int) -> Checkpoint:
    return Checkpoint(step, {"model": {"weight": torch.full((50_000,), float(step))}}, {"best": 1.0})


def test_checkpoints_keep_the_newest_and_know_damage(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, example(step))
    assert [path.name for path in checkpoints(tmp_path)] == ["step_000000003", "step_000000002"]
    assert not list(tmp_path.glob(".*"))
    torch.testing.assert_close(read_checkpoint(tmp_path / "step_000000003").tensors, example(3).tensors)
    for break_it, sentence in (
        (lambda path: (path / "model.safetensors").write_bytes(b"x"), "model.safetensors does not match its checksum"),
        (lambda path: (path / "state.json").write_text("{}"), "state.json does not match its checksum"),
        (lambda path: (path / "model.safetensors").unlink(), "model.safetensors is missing or unreadable"),
        (lambda path: (path / "manifest.json").write_text("{"), "manifest.json is not JSON"),
    ):
        path = write_checkpoint(tmp_path, example(9))
        break_it(path)  # type: ignore[no-untyped-call]
        assert damage(path) == sentence
        with pytest.raises(ValueError, match="is damaged"):
            read_checkpoint(path)
        newest, said = newest_intact(tmp_path)
        assert newest is not None
        assert newest.name != path.name
        assert path.name in said[0]


def test_a_write_that_fails_leaves_the_earlier_checkpoint_intact(tmp_path: Path) -> None:
    """A limit of the operating system on file sizes stands in for a full disk: the write itself fails."""
    resource = pytest.importorskip("resource", reason="this system has no limit on file sizes")
    write_checkpoint(tmp_path, example(1))
    handler, limits = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        with pytest.raises(ValueError, match=r"cannot write .*step_000000002: .*; earlier checkpoints are intact"):
            write_checkpoint(tmp_path, example(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000001"]
    assert damage(tmp_path / "step_000000001") is None
