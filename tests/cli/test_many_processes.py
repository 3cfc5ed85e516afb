"""Real processes under torchrun: figures do not depend on their number, and one that dies takes nothing with it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.helpers import content
from tests.training.helpers import finish, start
from tokenloom.cli import main

TORCHRUN = [
    *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
    *("--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"),  # on a free port
]
MODEL = "sudoku4-udm-loo"
EVALUATE = ("evaluate", MODEL, "--sequences", "21")
SAMPLE = ("sample", MODEL, "--num", "12", "--shard", "3", "--batch", "3", "--steps", "4")
BOTH = """
import sys
from contextlib import nullcontext
from unittest.mock import patch
from tokenloom.cli import main
from tokenloom.cli.ranks import Ranks, ranks

mine = ranks()
with mine.together():  # once: a process cannot join a second group on the same port
    with patch.object(Ranks, "together", lambda self: nullcontext()):
        for line in sys.argv[1:]:
            main(line.split())
    mine.wait()  # both are there
    if mine.first:
        try:
            mine.wait()
        except ValueError as error:
            sys.exit(str(error))
"""
"""Commands one after the other, so that PyTorch is imported once; then the second process leaves while the first one
waits for it."""


@pytest.fixture(scope="module")
def frontier(untrained: Path) -> tuple[str, ...]:
    return "frontier", str(untrained), "--judge", "oracle", "--steps", "2", "4", "--top-p", "1", "--num", "8"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, frontier: tuple[str, ...]) -> tuple[Path, str]:
    """The folder of both commands, and what two processes printed and said of their end."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "both.py").write_text(BOTH)
    lines = [" ".join((*command, "--out", str(folder / command[0]))) for command in (EVALUATE, frontier)]
    job = start(*TORCHRUN, str(folder / "both.py"), *lines)
    return folder, finish(job, expected=1)  # of the process that was left alone


def test_two_processes_evaluate_as_one_does(two: tuple[Path, str], tmp_path: Path) -> None:
    folder, out = two
    main([*EVALUATE, "--out", str(tmp_path)])
    assert out.count("Held-out likelihood") == 1  # one process speaks
    one = content(tmp_path, "*.json")
    assert one == content(folder / "evaluate", "*.json")
    assert one


def test_two_processes_draw_one_frontier(two: tuple[Path, str], frontier: tuple[str, ...], tmp_path: Path) -> None:
    folder, out = two
    main([*frontier, "--out", str(tmp_path)])
    assert out.count("Judged by") == 1
    one, both = (
        [point["perplexity"] for point in json.loads((place / "frontier.json").read_text())["points"]]
        for place in (tmp_path, folder / "frontier")
    )
    assert one == both
    assert len(one) == 4


def test_a_process_that_waits_for_one_that_has_ended_says_so(two: tuple[Path, str]) -> None:
    assert "another process of this command has ended, so this one cannot finish its work" in two[1]
    assert "start the same command again" in two[1]


def children(job: subprocess.Popen[str]) -> list[int]:
    """The processes that torchrun started, by rank."""
    found: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            told = dict(item.split("=", 1) for item in (folder / "environ").read_text().split("\0") if "=" in item)
        except (OSError, ValueError):
            continue
        if parent == job.pid and "RANK" in told:
            found[int(told["RANK"])] = int(folder.name)
    return [found[rank] for rank in sorted(found)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the processes are found in /proc")
def test_a_process_that_is_killed_ends_the_job_and_a_rerun_finishes_it(tmp_path: Path) -> None:
    """Sampling, in which processes need not meet: shards that are there stay, and the others are drawn."""
    main([*SAMPLE, "--out", str(tmp_path / "alone")])
    folder = tmp_path / "shards"
    folder.mkdir()
    for name in ("samples.json", "samples-00001.jsonl"):  # a shard of the process that will die
        shutil.copy(tmp_path / "alone" / name, folder)
    job = start(*TORCHRUN, "-m", "--", "tokenloom", *SAMPLE, "--out", str(folder))
    deadline = time.monotonic() + 120
    while len(children(job)) < 2:
        assert time.monotonic() < deadline, "torchrun did not start two processes"
        time.sleep(0.02)
    victim = children(job)[1]
    os.kill(victim, signal.SIGKILL)
    said, _ = job.communicate(timeout=300)
    assert job.returncode != 0
    assert f"exitcode  : {-signal.SIGKILL} (pid: {victim})" in said  # torchrun says who
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*.jsonl")}
    assert folder / "samples-00001.jsonl" in kept
    main([*SAMPLE, "--out", str(folder)])
    assert content(folder) == content(tmp_path / "alone")
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())
