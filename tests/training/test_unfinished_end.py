"""A run is finished when its model is written, not when its last step is taken."""

import shutil
from dataclasses import replace
from pathlib import Path

from tests.training.helpers import tiny
from tokenloom.models.checkpoint import newest_intact, read_checkpoint, write_checkpoint
from tokenloom.models.store import load_model
from tokenloom.training.loop import train
from tokenloom.training.reporting import Reporter


def test_a_run_killed_between_its_last_checkpoint_and_its_model_writes_the_model_when_resumed(tmp_path: Path) -> None:
    config = tiny(tmp_path / "run", max_steps=2)
    assert train(config, False, Reporter(quiet=True)) is not None
    expected = load_model(tmp_path / "run").state_dict()
    path, _ = newest_intact(tmp_path / "run" / "checkpoints")
    assert path is not None
    saved = read_checkpoint(path)
    assert saved.state["done"]
    assert train(config, True, Reporter(quiet=True)) is None  # finished: nothing is left to do
    write_checkpoint(path.parent, replace(saved, state=saved.state | {"done": False}))  # as the loop wrote it
    shutil.rmtree(tmp_path / "run" / "model")
    result = train(config, True, Reporter(quiet=True))
    assert result is not None
    assert result.steps == 2
    again = load_model(tmp_path / "run").state_dict()
    assert all(again[name].equal(value) for name, value in expected.items())
