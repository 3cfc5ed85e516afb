"""Real kills: the same work in a child process that ends itself with SIGKILL at its n-th line or call."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest


def kills(work: Callable[[], object], *files: str, stride: int = 1) -> Iterator[int]:
    """Run `work` in a child again and again, killed at ever later lines of these files, until it comes through."""
    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    line = 1
    while _killed(work, files, line):
        yield line
        line += stride


def _killed(work: Callable[[], object], files: tuple[str, ...], line: int) -> bool:
    child = os.fork()
    if child == 0:
        try:
            sys.settrace(_killer(files, line))
            work()
            sys.settrace(None)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work itself failed"
    return os.WIFSIGNALED(status)


def _killer(files: tuple[str, ...], line: int) -> Callable[..., Any]:
    left = line

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(files):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace
