"""Real runs, real signals: nothing is lost, and what is resumed is the same run."""

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.cli.helpers import Shell
from tests.training.helpers import TINY, losses, start, wait_until, weights
from tokenloom.cli import main
from tokenloom.data.markov import MarkovSource
from tokenloom.models.checkpoint import checkpoints
from tokenloom.sudoku.data import SudokuSource
from tokenloom.training import ending
from tokenloom.training.reporting import Reporter


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    main(["train", *TINY, "--max-steps", "2", "--out", str(folder)])
    return folder


@pytest.mark.usefixtures("as_a_user")
def test_a_killed_and_resumed_run_is_bit_identical_to_an_uninterrupted_one(tmp_path: Path, shell: Shell) -> None:
    """kill -9 while it runs, then a damaged newest checkpoint, with dropout: weights, averages and moments agree."""
    options = [*TINY, "--run.checkpoint-every", "4", "--network.dropout", "0.1", "--run.valid-rows", "8"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    command = [sys.executable, "-m", "tokenloom", "train", *options, "--max-steps", "1000000", "--out", str(broken)]
    victim = start(*command)
    try:
        wait_until(lambda: len(checkpoints(broken / "checkpoints")) == 2)
    finally:
        victim.kill()
        victim.communicate()
    newest = max((broken / "checkpoints").glob("step_*"))
    end = int(newest.name.removeprefix("step_")) + 3
    damaged = broken / "checkpoints" / f"step_{end - 1:09d}"
    shutil.copytree(newest, damaged)
    (damaged / "model.safetensors").write_bytes(b"cut short")
    said = " ".join(shell("train", "--resume", str(broken), "--max-steps", str(end)).err.split())
    assert f"{damaged.name} is damaged: model.safetensors " in said
    assert "; it is passed over" in said
    assert f"resuming from step {end - 3}" in said
    main(["train", *options, "--max-steps", str(end), "--out", str(whole)])
    first, second = weights(whole, end), weights(broken, end)
    assert set(first) == {"model.safetensors", "ema.safetensors", "optimiser.safetensors"}
    assert first == second


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_writes_a_checkpoint_and_its_table_and_says_how_to_resume(
    number: signal.Signals, tmp_path: Path, shell: Shell
) -> None:
    """A real signal to this process, which would end the tests if the run did not listen to it."""
    run = tmp_path / "a run"

    def interrupt() -> None:
        wait_until(lambda: (run / "metrics.jsonl").exists() and max(losses(run), default=0) >= 3)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt).start()
    options = ["--max-steps", "5000", "--run.checkpoint-every", "1000000", "--out", str(run)]
    captured = shell.ends(128 + number, "train", *TINY, *options)
    assert "stopping after this step, with a checkpoint" in captured.err
    assert f"resume with: tokenloom train --resume '{run}'" in captured.err
    assert "validation bound" in captured.out
    (checkpoint,) = (run / "checkpoints").glob("step_*")
    step = int(checkpoint.name.removeprefix("step_"))
    assert step >= max(losses(run))
    assert f"resuming from step {step}" in shell("train", "--resume", str(run), "--max-steps", str(step + 1)).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_run_at_once(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    """Both come within one step, so that the run has no time to write anything."""
    monkeypatch.setattr(ending, "SAME", 0.0)

    def impatient(*arguments: object) -> None:
        signal.raise_signal(number)
        time.sleep(0.01)
        signal.raise_signal(number)

    monkeypatch.setattr(Reporter, "step", impatient)
    captured = shell.ends(128 + number, "train", *TINY, "--max-steps", "5", "--out", str(tmp_path / "run"))
    assert "a second Ctrl-C or signal stops at once, without it" in captured.err
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_a_finished_run_says_so_and_how_to_train_it_further(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    """By steps and by the clock, with no data loaded; the minutes of all parts count."""
    steps, clock = shutil.copytree(trained, tmp_path / "steps"), tmp_path / "clock"
    shell("train", *TINY, "--max-minutes", "0.005", "--out", str(clock))
    with monkeypatch.context() as patch:
        patch.setattr(MarkovSource, "load", None)
        for run, remedy in ((steps, "--max-steps 4"), (clock, "--max-minutes 0.0")):
            captured = shell("train", "--resume", str(run))
            assert "the run is finished (" in captured.err
            assert f"to train it further, pass {remedy}" in captured.err
            assert captured.out == ""
        said = shell("train", "--resume", str(steps), "--max-steps", "1").err
        assert "the run is finished (2 steps in " in " ".join(said.split())
    said = shell("train", "--resume", str(steps), "--max-steps", "3").out
    assert "3 steps, " in said
    assert "minutes since step 2" in said


def test_a_config_repeats_its_run(trained: Path, tmp_path: Path) -> None:
    main(["train", "--config", str(trained / "config.json"), "--out", str(tmp_path / "again")])
    assert weights(trained, 2) == weights(tmp_path / "again", 2)


def test_a_folder_that_holds_a_run_or_cannot_be_written_is_named(trained: Path, tmp_path: Path, shell: Shell) -> None:
    new = ("train", *TINY, "--max-steps", "2", "--out")
    assert "already holds a run: continue it with --resume" in shell.refusal(*new, str(trained))
    changed = shell.refusal("train", "--resume", str(trained), "--optimiser.lr", "0.5", "--network.depth", "3")
    assert "network.depth (1 -> 3), optimiser.lr (0.001 -> 0.5)" in changed
    (tmp_path / "file").write_text("")
    assert "cannot write to " in shell.refusal(*new, str(tmp_path / "file" / "run"))


MARKOV, GRIDS = ["--recipe", "markov"], ["--recipe", "sudoku9"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--recipe", "sudoku5"], "there is no recipe 'sudoku5'; did you mean sudoku9 or sudoku6?"),
        ([*MARKOV, "--objective", "crm"], "RatioMatching needs a hollow network"),
        ([*MARKOV, "--method", "ar", "--objective", "ce"], "NextToken goes with CausalTransformer"),
        ([*MARKOV, "--network.kind", "causal"], "causal sees only the past: use --method ar"),
        ([*MARKOV, "--network.kind", "grid"], "--network.kind grid needs a grid, and markov chain of 16"),
        ([*GRIDS, "--network.kind", "grid", "--method", "ar"], "causal network, got --network.kind grid"),
        ([*MARKOV, "--network.relations"], "needs a grid, and markov chain of 16 tokens has no relations"),
        ([*MARKOV, "--network.kind", "dti"], "there is no network 'dti'; did you mean dit"),
        ([*MARKOV, "--data.kind", "txt"], "there is no kind of data 'txt'; did you mean text"),
        (["--recipe", "chars"], "text needs --data.path"),
        (["--recipe", "text"], "text needs --data.path"),
        ([*MARKOV, "--data.rows", "1000000000000"], "1000000000000 rows of 32 tokens needs about 256,000.0 GB"),
        (["--resume", "nowhere"], "nowhere is not a run to resume: it holds no config.json"),
        ([*GRIDS, "--network.heads", "7"], "width must be an even multiple of heads, got width 96 and heads 7"),
        ([*GRIDS, "--network.width", "10000000", "--network.heads", "4"], "parameters) needs about"),
        ([*GRIDS, "--network.depth", "1000000000000"], "depth 1000000000000 ("),
        ([*GRIDS, "--network.depth", "1" + 30 * "0"], "--network.depth must be below 2^63"),
        ([*MARKOV, "--optimiser.accumulate", "3"], "batch must be a multiple of processes x accumulate = 3, got 64"),
        ([*GRIDS, "--optimiser.batch", "1000000000000"], "1000000000000 sequences of 81 tokens needs about"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_any_data_is_made(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    for source in (MarkovSource, SudokuSource):
        monkeypatch.setattr(source, "load", None)
    out = [] if "--resume" in arguments else ["--out", str(tmp_path / "run")]
    assert sentence in shell.refusal("train", *arguments, *out)
    assert not list(tmp_path.iterdir())
