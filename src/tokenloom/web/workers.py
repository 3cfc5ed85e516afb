"""Threads with a waiting line of limited length in front of them; beyond it, a request is refused with a sentence.

A job writes lines for its reader and checks its `stop` between two steps.  A reader that goes away sets it; a job whose
turn has not come leaves the line.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

Result = TypeVar("Result")

PAUSE = 0.03
"""Seconds between two messages to one reader: whatever was written meanwhile goes out together."""
PATIENCE = 0.25
"""Seconds after which a silent job checks whether its reader is still connected."""


class Job:
    """Carries lines from a worker's thread to the event loop that reads them."""

    work: Future[Any]

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

    def write(self, line: dict[str, Any] | None) -> None:
        """Send a line from any thread; None says that no line follows."""
        with suppress(RuntimeError):  # of a loop that has closed: nobody waits
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    async def read(self, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[list[dict[str, Any]]]:
        """Yield the lines as they come, a few at a time; stop the job if its reader is `gone`."""
        try:
            lines: list[dict[str, Any] | None] = []
            while None not in lines and not await gone():
                lines = []
                with anyio.move_on_after(PATIENCE):
                    lines.append(await self._lines.get())
                while not self._lines.empty():
                    lines.append(self._lines.get_nowait())
                if written := [line for line in lines if line is not None]:
                    yield written
                    await asyncio.sleep(PAUSE)
        finally:
            self.stop.set()
            self.work.cancel()


class Workers:
    """A line of at most `waiting` jobs in front of a few threads; messages call a job `what`."""

    def __init__(self, threads: int, waiting: int, what: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tokenloom")
        self._threads, self._waiting, self._what = threads, waiting, what
        self.inside: set[Job] = set()
        """Jobs that run or wait."""

    def start(self, work: Callable[[Job], Any]) -> Job:
        """Return a job whose lines can be read from now on; only the event loop starts one, so two take two places."""
        if len(self.inside) >= self._threads + self._waiting:
            sentence = f"{self._waiting} {self._what}s are waiting already, which is the limit; try again in a moment"
            raise HTTPException(503, sentence, {"retry-after": "2"})
        job = Job()
        self.inside.add(job)
        if (before := len(self.inside) - self._threads) > 0:
            job.write({"kind": "waiting", "before": before})

        def end(work: Future[Any]) -> None:
            self.inside.discard(job)
            job.write(None)

        job.work = self._pool.submit(work, job)
        job.work.add_done_callback(end)
        return job

    async def ask(self, question: Callable[[], Result], gone: Callable[[], Awaitable[bool]]) -> Result:
        """Answer one question in a thread, unless who asked is `gone` before its turn."""
        job = self.start(lambda job: question())
        async for _ in job.read(gone):
            pass
        if job.work.cancelled() or not job.work.done():
            raise ClientDisconnect
        answer: Result = job.work.result()
        return answer

    def close(self) -> None:
        """Stop running jobs, drop waiting ones and let the threads end."""
        for job in list(self.inside):
            job.stop.set()
            job.write(None)
        self._pool.shutdown(wait=False, cancel_futures=True)
