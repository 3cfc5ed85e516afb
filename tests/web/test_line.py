"""The line in front of the workers: bounded, in order, and left by those who go away."""

import asyncio
import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tokenloom as tl
from tests.web.helpers import TINY, Client, alone
from tokenloom.web.app import Playground
from tokenloom.web.library import Library
from tokenloom.web.limits import Limits
from tokenloom.web.serving import running
from tokenloom.web.workers import Job

STATUS = Path("/proc/self/statm")


def resident() -> int:
    """Bytes of this process in memory."""
    return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_beyond_the_limit_a_request_is_refused_with_a_sentence_and_the_others_are_answered() -> None:
    playground = Playground(Library([TINY]), Limits(workers=1, waiting=3))
    open_gate = threading.Event()
    with running(playground) as url:
        client = Client(url)

        def blocked(job: Job) -> None:
            open_gate.wait(20)

        async def hold_the_worker() -> None:
            playground.drawing.start(blocked)

        with ThreadPoolExecutor(12) as pool:
            pool.submit(lambda: asyncio.run(hold_the_worker())).result()  # a browser's loop may run in this thread
            asked = [pool.submit(client.draw, model=TINY, seed=seed, sampling={"steps": 4}) for seed in range(12)]
            while sum(one.done() for one in asked) < 9:
                time.sleep(0.01)
            open_gate.set()
            answers = [one.result() for one in asked]
    refused = [lines for lines in answers if lines[0]["kind"] == "refused"]
    served = {seed: lines for seed, lines in enumerate(answers) if lines[-1]["kind"] == "end"}
    assert (len(refused), len(served)) == (9, 3)
    sentence = "3 drawings are waiting already, which is the limit; try again in a moment"
    assert {(lines[0]["status"], lines[0]["sentence"]) for lines in refused} == {(503, sentence)}
    for seed, lines in served.items():
        assert lines[0] == {"kind": "waiting", "before": lines[0]["before"]}
        assert lines[-1]["tokens"] == alone(TINY, seed, tl.Sampler(steps=4))
    assert sorted(lines[0]["before"] for lines in served.values()) == [1, 2, 3]


@pytest.mark.skipif(not STATUS.exists(), reason="this system does not say how much memory a process has")
def test_memory_is_flat_over_many_requests(client: Client) -> None:
    """A slice of scripts/load_playground.py, which does a thousand."""

    def many(first: int) -> None:
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(client.draw, model=TINY, seed=first + i, sampling={"steps": 2}) for i in range(24)]
        assert all(one.result()[-1]["kind"] == "end" for one in asked)
        gc.collect()

    many(0)
    before = resident()
    many(100)
    assert resident() - before < 16e6
