"""Who works, who waits and who is sent away: a few threads, a line of limited length, and a sentence beyond it.

A job writes lines for its reader and looks at its `stop` between two steps.  A reader that goes away sets it, and a job
that was stopped before its turn ends at once.
"""

import asyncio
import threading
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

Result = TypeVar("Result")

PAUSE = 0.03
"""Seconds between two messages to one reader: whatever was written meanwhile goes out together."""
PATIENCE = 0.25
"""Seconds after which a silent job's reader is asked whether it is still there."""
CRASHED = "something went wrong inside the playground, and only this request is affected; the terminal says more"


class BusyError(Exception):
    """The line is full."""


class StoppedError(Exception):
    """The reader of a job went away."""


class Job:
    """Lines from a thread to the event loop that waits for them."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.done = False
        self._lines: deque[dict[str, Any]] = deque()
        self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()

    def write(self, line: dict[str, Any]) -> None:
        """Add a line; from the worker's thread."""
        self._lines.append(line)
        self._wake()

    def finish(self) -> None:
        """No line follows."""
        self.done = True
        self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # of a loop that has closed: nobody waits
            self._loop.call_soon_threadsafe(self._news.set)

    async def read(self, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[list[dict[str, Any]]]:
        """The lines as they come, a few at a time; stops the job where `gone` says that nobody reads on."""
        try:
            while True:
                last = self.done
                self._news.clear()
                lines = [self._lines.popleft() for _ in range(len(self._lines))]
                if lines:
                    yield lines
                if last:
                    return
                if await gone():
                    return
                await asyncio.sleep(PAUSE if lines else 0)
                if not self._lines and not self.done:
                    await _wait(self._news, PATIENCE)
        finally:
            self.stop.set()


async def _wait(news: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(news.wait(), seconds)
    except (TimeoutError, asyncio.TimeoutError):  # two classes before Python 3.11
        return


class Workers:
    """A bounded line in front of a few threads.

    Args:
        threads: Jobs at the same time.
        waiting: Jobs in the line.
        what: What messages call one job.
    """

    def __init__(self, threads: int, waiting: int, what: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tokenloom")
        self._threads, self._waiting, self._what = threads, waiting, what
        self._inside, self._lock = 0, threading.Lock()
        self._jobs: set[Job] = set()

    def _enter(self) -> int:
        """Take a place; how many go before."""
        with self._lock:
            if self._inside >= self._threads + self._waiting:
                raise BusyError(
                    f"{self._waiting} {self._what}s are waiting already, which is the limit; try again in a moment"
                )
            self._inside += 1
            return max(0, self._inside - self._threads)

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1

    @property
    def inside(self) -> int:
        """Jobs that run or wait."""
        return self._inside

    def start(self, work: Callable[[Job], None]) -> Job:
        """A job whose lines can be read from now on; an error is its last line."""
        before, job = self._enter(), Job()
        self._jobs.add(job)
        if before:
            job.write({"kind": "waiting", "before": before})

        def run() -> None:
            try:
                if not job.stop.is_set():
                    work(job)
            except StoppedError:
                pass
            except ValueError as error:
                job.write({"kind": "error", "sentence": str(error)})
            except Exception:
                traceback.print_exc()
                job.write({"kind": "error", "sentence": CRASHED})
            finally:
                self._leave()
                self._jobs.discard(job)
                job.finish()

        self._pool.submit(run)
        return job

    async def ask(self, question: Callable[[], Result]) -> Result:
        """The answer to one question, from a thread.

        Raises:
            BusyError: If the line is full.
        """
        self._enter()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, question)
        finally:
            self._leave()

    def close(self) -> None:
        """Stop what runs, drop what waits and let the threads end."""
        for job in list(self._jobs):
            job.stop.set()
            job.finish()
        self._pool.shutdown(wait=False, cancel_futures=True)
