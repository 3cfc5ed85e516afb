"""Checkpoints: the newest are kept, damage is known, and a write that fails harms nothing."""

import hashlib
import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.killing import kills
from tokenloom.models.checkpoint import FILES, TENSORS, Checkpoint, newest_intact, read_checkpoint, write_checkpoint
from tokenloom.support import files

Break = Callable[[Path], object]


def example(step: int) -> Checkpoint:
    tensors = {group: {"weight": torch.full((20_000,), float(step))} for group in TENSORS}
    return Checkpoint(step, tensors, {"best": 1.0})


def sealed(path: Path, **changes: bytes) -> None:
    """Write some files and a manifest that agrees with them."""
    for name, content in changes.items():
        (path / name.replace("_", ".")).write_bytes(content)
    sums = {name: hashlib.sha256((path / name).read_bytes()).hexdigest() for name in sorted(FILES)}
    (path / "manifest.json").write_text(json.dumps(sums))


def test_checkpoints_keep_the_newest(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, example(step))
    assert sorted(os.listdir(tmp_path)) == ["step_000000002", "step_000000003"]
    torch.testing.assert_close(read_checkpoint(tmp_path / "step_000000003").tensors, example(3).tensors)


DAMAGES: list[tuple[Break, str]] = [
    (lambda path: (path / "state.json").write_text("{}"), "state.json does not match its checksum"),
    (lambda path: (path / "model.safetensors").write_bytes(b"x"), "model.safetensors does not match its checksum"),
    (lambda path: (path / "model.safetensors").unlink(), "model.safetensors is missing"),
    (lambda path: (path / "manifest.json").write_text("{"), "manifest.json is not JSON"),
    (lambda path: (path / "manifest.json").write_text(""), "manifest.json is empty"),
    (lambda path: (path / "manifest.json").write_text("{}"), "manifest.json must name ema.safetensors, model.safe"),
    (lambda path: (path / "manifest.json").write_text('{"/dev/zero": ""}'), "manifest.json must name ema.safetensors"),
    (lambda path: (path / "manifest.json").write_text("[1]"), "manifest.json must name ema.safetensors"),
    (lambda path: (path / "more.safetensors").touch(), "more.safetensors is not a file of a checkpoint"),
    (lambda path: sealed(path, state_json=b"[1]"), "state.json is not that of the step in the name step_000000009"),
    (lambda path: sealed(path, state_json=b'{"step": 8}'), "state.json is not that of the step in the name"),
    (lambda path: sealed(path, state_json=b'{"step": true}'), "state.json is not that of the step in the name"),
    (lambda path: sealed(path, state_json=b'{"step": 9, "best": Infinity}'), "state.json is not JSON: Infinity is not"),
    (lambda path: sealed(path, ema_safetensors=b""), "ema.safetensors is not a safetensors file"),
    (lambda path: instead(path / "state.json", lambda own: own.symlink_to("/dev/zero")), "is a link, not a file"),
    (lambda path: instead(path / "ema.safetensors", os.mkfifo), "ema.safetensors is a pipe, not a file"),
    (lambda path: instead(path / "state.json", Path.mkdir), "state.json is a folder, not a file"),
    (lambda path: instead(path / "manifest.json", os.mkfifo), "manifest.json is a pipe, not a file"),
]


def instead(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


@pytest.mark.parametrize(("break_it", "sentence"), DAMAGES, ids=[sentence[:50] for _, sentence in DAMAGES])
def test_damage_is_named_and_passed_over(break_it: Break, sentence: str, tmp_path: Path) -> None:
    signal.alarm(20)  # for a pipe that is waited for, or a device that is read without end
    write_checkpoint(tmp_path, example(3))
    path = write_checkpoint(tmp_path, example(9))
    break_it(path)
    with pytest.raises(ValueError, match=f"is damaged: .*{re.escape(sentence)}"):
        read_checkpoint(path)
    newest, said = newest_intact(tmp_path)
    assert newest is not None
    assert newest.step == 3
    assert path.name in said[0]
    assert sentence in said[0]
    signal.alarm(0)


def test_a_run_that_resumes_before_damaged_checkpoints_keeps_its_own(tmp_path: Path) -> None:
    """Later ones stay in the folder, damaged as they are; they do not count among the newest."""
    for step in (20, 30):
        (write_checkpoint(tmp_path, example(step)) / "state.json").unlink()
    write_checkpoint(tmp_path, example(15))
    newest, _ = newest_intact(tmp_path)
    assert newest is not None
    assert newest.step == 15


@pytest.mark.parametrize("exchanging", [True, False])
def test_a_checkpoint_written_again_and_killed_is_the_old_or_the_new_one(
    exchanging: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only checkpoint of a run, SIGKILL at lines at which names change."""
    if not exchanging:
        monkeypatch.setattr(files, "_exchange", lambda first, second: False)
    old = example(7)
    new = replace(old, tensors={group: {"weight": torch.ones(20_000)} for group in TENSORS})
    write_checkpoint(tmp_path, old)
    for line in kills(lambda: write_checkpoint(tmp_path, new), "support/files.py", stride=4):
        newest, said = newest_intact(tmp_path)
        assert newest is not None, f"killed at line {line}"
        assert not said
        assert any(torch.equal(newest.tensors["ema"]["weight"], whole.tensors["ema"]["weight"]) for whole in (old, new))
        write_checkpoint(tmp_path, old)
        assert [file.name for file in tmp_path.iterdir()] == ["step_000000007"]


def test_a_write_that_fails_leaves_the_earlier_checkpoint_intact(tmp_path: Path) -> None:
    """A limit of the operating system on file sizes stands in for a full disk: the write itself fails."""
    resource = pytest.importorskip("resource", reason="this system has no limit on file sizes")
    write_checkpoint(tmp_path, example(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
        with pytest.raises(ValueError, match=r"cannot write .*step_000000002: .*; earlier checkpoints are intact"):
            write_checkpoint(tmp_path, example(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000001"]
    read_checkpoint(tmp_path / "step_000000001")
