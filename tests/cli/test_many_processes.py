"""Real processes under torchrun: figures do not depend on their number, and one that dies takes nothing with it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.training.helpers import launcher, saved, tiny
from tokenloom.cli import main

MODEL = "sudoku4-udm-loo"
EVALUATE = ("evaluate", MODEL, "--rows", "20")
SAMPLE = ("sample", MODEL, "--num", "12", "--shard", "3", "--batch", "3", "--steps", "4")


def launch(processes: int, *command: str) -> subprocess.Popen[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    whole = [*launcher(processes), "-m", "--", "tokenloom", *command]
    return subprocess.Popen(whole, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(job: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = job.communicate(timeout=300)
    return job.returncode, out, err


def content(folder: Path, pattern: str) -> dict[str, Any]:
    return {path.name: path.read_text() for path in sorted(folder.glob(pattern))}


def test_three_processes_evaluate_as_one_does(tmp_path: Path) -> None:
    main([*EVALUATE, "--out", str(tmp_path / "one")])
    status, out, err = ended(launch(3, *EVALUATE, "--out", str(tmp_path / "three")))
    assert status == 0, err
    assert out.count("Held-out likelihood") == 1  # one process speaks
    one, three = (content(tmp_path / name, "*.json") for name in ("one", "three"))
    assert one == three
    assert one


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


def until(condition: Any, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the processes are found in /proc")
def test_a_process_that_is_killed_ends_the_job_and_a_rerun_finishes_it(tmp_path: Path) -> None:
    """Sampling, in which processes need not meet: shards that are there stay, and the others are drawn."""
    main([*SAMPLE, "--out", str(tmp_path / "alone")])
    folder = tmp_path / "shards"
    folder.mkdir()
    for name in ("samples.json", "samples-00001.jsonl"):  # a shard of the process that will die
        shutil.copy(tmp_path / "alone" / name, folder)
    job = launch(2, *SAMPLE, "--out", str(folder))
    until(lambda: len(children(job)) == 2)
    victim = children(job)[1]
    os.kill(victim, signal.SIGKILL)
    status, _, err = ended(job)
    assert status != 0
    assert f"exitcode  : {-signal.SIGKILL} (pid: {victim})" in err  # torchrun says who
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("*.jsonl")}
    assert folder / "samples-00001.jsonl" in kept
    status, _, err = ended(launch(2, *SAMPLE, "--out", str(folder)))
    assert status == 0, err
    assert content(folder, "*.jsonl") == content(tmp_path / "alone", "*.jsonl")
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in kept.items())


WAITING = """
import sys
from tokenloom.cli import ranks

mine = ranks.ranks()
with mine.together():
    mine.wait()  # both are there
    if mine.first:
        try:
            mine.wait()
        except ValueError as error:
            sys.exit(str(error))
"""
"""The second process leaves while the first one waits for it."""


def test_a_process_that_waits_for_one_that_has_ended_says_so() -> None:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    common = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", WAITING], env=common | {"RANK": rank}, stderr=subprocess.PIPE, text=True
        )
        for rank in ("0", "1")
    ]
    said = [process.communicate(timeout=120)[1] for process in both]
    assert both[0].returncode == 1
    assert "another process of this command has ended, so this one cannot finish its work" in said[0]
    assert "start the same command again" in said[0]


def test_two_processes_draw_the_frontier_of_one(tmp_path: Path) -> None:
    saved(tiny(tmp_path / "run"), tmp_path / "run")
    command = (
        "frontier",
        str(tmp_path / "run"),
        "--judge",
        "oracle",
        "--steps",
        "2",
        "4",
        "--top-p",
        "1",
        "--num",
        "8",
    )
    main([*command, "--out", str(tmp_path / "one")])
    status, out, err = ended(launch(2, *command, "--out", str(tmp_path / "two")))
    assert status == 0, err
    assert out.count("Judged by") == 1
    one, two = (
        [point["perplexity"] for point in json.loads((tmp_path / name / "frontier.json").read_text())["points"]]
        for name in ("one", "two")
    )
    assert one == two
    assert len(one) == 4
