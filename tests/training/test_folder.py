"""A folder is one run's: locked until its process ends, resumed from what it wrote, or refused in one sentence."""

import errno
import hashlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file, save_file

from tests.cli.helpers import Shell
from tests.training.helpers import TINY, tiny, train, wait_until, weights
from tokenloom.models.checkpoint import FILES, read_checkpoint, write_checkpoint
from tokenloom.models.store import load_model
from tokenloom.support.files import HOST
from tokenloom.training import loop
from tokenloom.training.folder import locked
from tokenloom.training.reporting import Reporter

STEP = "step_000000002"
GONE = object()
"""A value that a state does not have."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(tiny(folder, max_steps=2))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def resume(folder: Path, steps: int = 3) -> None:
    train(tiny(folder, max_steps=steps), resume=True)


def edit_state(run: Path, **changes: Any) -> None:
    """Change the state of the checkpoint, and its manifest with it."""
    path = run / "checkpoints" / STEP / "state.json"
    state = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in state.items() if value is not GONE}))
    seal(path.parent)


def seal(checkpoint: Path) -> None:
    """A manifest that agrees with the files."""
    sums = {name: hashlib.sha256((checkpoint / name).read_bytes()).hexdigest() for name in FILES}
    (checkpoint / "manifest.json").write_text(json.dumps(sums))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"best": GONE}, "cannot be built from its record: .*'best'"),
        ({"averaged": GONE}, "cannot be built from its record: .*'averaged'"),
        ({"best": "1"}, "best of the state of .* must be a number or null, got '1'"),
        ({"averaged": 1.5}, "averaged of the state of .* must be a whole number, got 1.5"),
        ({"averaged": -1}, "averaged must be at least 0, got -1"),
        ({"avreaged": 1}, "has no option 'avreaged'; did you mean averaged"),
    ],
)
def test_a_state_of_another_kind_gets_a_sentence(changes: dict[str, Any], sentence: str, run: Path) -> None:
    edit_state(run, **changes)
    with pytest.raises(ValueError, match=sentence):
        resume(run)


@pytest.mark.parametrize("group", ["model", "ema", "optimiser"])
def test_tensors_of_another_network_get_a_sentence(group: str, run: Path) -> None:
    path = run / "checkpoints" / STEP
    tensors = load_file(path / f"{group}.safetensors")
    name = next(name for name in tensors if tensors[name].ndim == 2)
    for changed, sentence in (
        ({key: value for key, value in tensors.items() if key != name}, f"lack {name}"),
        (tensors | {"more": torch.zeros(1)}, "have an unknown more"),
        (tensors | {name: tensors[name].T.contiguous()[:1]}, f"the weight {name} has shape"),
        (tensors | {name: tensors[name].long()}, f"the weight {name} holds torch.int64"),
    ):
        save_file(changed, path / f"{group}.safetensors")
        seal(path)
        with pytest.raises(ValueError, match=sentence):
            resume(run)


def test_a_run_without_a_validation_resumes(run: Path) -> None:
    """Its best figure is infinite, for which JSON has no number."""
    edit_state(run, best=None)
    resume(run)
    assert (run / "checkpoints" / "step_000000003").is_dir()


def test_a_run_killed_between_its_last_checkpoint_and_its_model_writes_the_model_when_resumed(run: Path) -> None:
    """A run is finished when its model is written, not when its last step is taken."""
    config, expected = tiny(run, max_steps=2), load_model(run).state_dict()
    saved = read_checkpoint(run / "checkpoints" / STEP)
    assert saved.state["done"]
    assert loop.train(config, True, Reporter(quiet=True)) is None  # finished: nothing is left to do
    write_checkpoint(run / "checkpoints", replace(saved, state=saved.state | {"done": False}))  # as the loop wrote it
    shutil.rmtree(run / "model")
    result = train(config, resume=True)
    assert result.steps == 2
    again = load_model(run).state_dict()
    assert all(again[name].equal(value) for name, value in expected.items())


def test_what_a_killed_run_left_is_removed_or_finished_by_the_next(run: Path, tmp_path: Path) -> None:
    """Its process is gone, its half checkpoint too, and the checkpoint it had moved aside is back."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    own = f"{HOST}-{child}-00000000"
    (run / "checkpoints" / STEP).rename(run / "checkpoints" / f".{STEP}-old-{own}")
    (run / "checkpoints" / f".{STEP}-partial-{own}").mkdir()
    (run / f".model-partial-{own}").mkdir()
    (run / f".config-partial-{own}.json").touch()
    resume(run)
    assert not list(run.rglob(".*"))
    train(tiny(tmp_path / "whole", max_steps=3))
    assert weights(run, 3) == weights(tmp_path / "whole", 3)


def test_the_config_of_a_resumed_run_needs_no_room(run: Path) -> None:
    """It is not written again where it says the same; the first time it says another folder, as this is a copy."""
    stats = []
    for _ in range(2):
        edit_state(run, done=False)
        resume(run, 2)
        stats.append((run / "config.json").stat())
    assert (stats[0].st_ino, stats[0].st_mtime_ns) == (stats[1].st_ino, stats[1].st_mtime_ns)


def test_a_new_run_never_begins_in_a_folder_of_something_else(tmp_path: Path, shell: Shell) -> None:
    new = ("train", *TINY, "--max-steps", "2", "--out")
    (tmp_path / "thesis.tex").touch()
    said = shell.refusal(*new, str(tmp_path))
    assert f"{tmp_path} holds thesis.tex, which is not part of a run; choose another --out" in said
    (tmp_path / "thesis.tex").rename(tmp_path / "config.json").write_text('{"model_type": "bert"}')
    said = shell.refusal(*new, str(tmp_path))
    assert "config.json is not a usable config: the config has no format number" in said
    assert "a new run would replace it, so choose another --out" in said
    assert os.listdir(tmp_path) == ["config.json"]
    assert "/dev/null" in shell.refusal(*new, "/dev/null")
    assert Path("/dev/null").is_char_device()


@contextmanager
def another_process(folder: Path, rank: int = 0, processes: int = 1) -> Iterator[int]:
    """A process that holds the lock until it is killed."""
    child = os.fork()
    if child == 0:
        with locked(folder, rank, processes):
            (folder / "held").touch()
            signal.pause()
        os._exit(1)
    wait_until((folder / "held").exists)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_second_training_is_told_who_holds_the_folder_until_that_process_dies(run: Path, shell: Shell) -> None:
    with another_process(run) as holder:
        said = shell.refusal("train", "--resume", str(run), "--max-steps", "3")
        assert f"{run} is being trained by process {holder} (started 20" in said
        assert f"stop it with `kill {holder}`, or choose another --out" in said
        assert (run / ".lock-0").exists()
    resume(run)
    assert not list(run.glob(".lock*"))


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
