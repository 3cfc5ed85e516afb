"""Commands beside processes that keep every core busy.

Threads that spin while they wait burn the time of the cores that others need, so seconds of the processor tell what
seconds of the clock only tell by luck.  `tokenloom bench busy` and the attack's kind `busy` time whole commands.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bench_busy import busy

COMMANDS = [
    ["sample", "shakespeare-udm-loo", "--num", "2", "--steps", "32"],
    ["solve", "1" + 15 * "."],
    ["train", "--recipe", "sudoku4", "--max-steps", "10"],
]
RUN = """
import json, sys, time
from tokenloom.cli import main
for arguments in json.loads(sys.argv[1]):
    start = time.process_time()
    main(arguments)
    print("took", time.process_time() - start)
"""
WAIT = """
import time
import tokenloom, torch
torch.set_num_threads(2)
numbers = torch.rand(1 << 18)
def used(rest):
    start = time.process_time()
    for _ in range(150):
        numbers.exp()
        time.sleep(rest)
    return time.process_time() - start
used(0)
print(used(0), used(0.005))
"""


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment as a user has it, and not as the tests do."""
    return {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "OMP_NUM_THREADS")}


def test_threads_that_wait_use_no_processor(environment: dict[str, str]) -> None:
    """150 waits of 5 ms took 0.5 to 0.8 s of the processor when they span, and take 0.02 s."""
    run = subprocess.run([sys.executable, "-c", WAIT], env=environment, capture_output=True, text=True, check=True)
    busy_alone, with_waiting = map(float, run.stdout.split())
    assert with_waiting < busy_alone + 0.2


def test_commands_beside_busy_processes_use_no_more_of_the_processor(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """Threads that span used up to nine times as much, and the commands took as much longer."""

    def seconds(folder: str) -> list[float]:
        (tmp_path / folder).mkdir()
        command = [sys.executable, "-c", RUN, json.dumps(COMMANDS)]
        run = subprocess.run(
            command, cwd=tmp_path / folder, env=environment, capture_output=True, text=True, check=True
        )
        return [float(line.split()[1]) for line in run.stdout.splitlines() if line.startswith("took ")]

    alone = seconds("alone")
    with busy(2):
        beside = seconds("beside")
    for command, used, used_beside in zip(COMMANDS, alone, beside, strict=True):
        assert used_beside < 1.5 * used + 0.5, command
