"""The number of threads that a network runs on, by a short timing.

Threads wait for one another after every operation.  On a busy machine, or with a small network, that takes longer than
the work: half as many are tried, as long as that is faster.  A user who sets OMP_NUM_THREADS has chosen.
"""

import os
from collections.abc import Callable
from functools import partial
from timeit import repeat, timeit

import torch

from tokenloom.models.protocol import Model


def fastest_threads(seconds: Callable[[], float]) -> tuple[int, float]:
    """Time work on all threads, and on half as many as long as that is faster; return the fewest and their seconds."""
    before = threads = torch.get_num_threads()
    best = threads, float("inf")
    while threads:
        torch.set_num_threads(threads)
        took = seconds()
        if took >= best[1]:
            break
        best, threads = (threads, took), 0 if chosen_by_user() else threads // 2
    torch.set_num_threads(before)
    return best


def chosen_by_user() -> bool:
    """Return whether the environment sets the number of threads."""
    return "OMP_NUM_THREADS" in os.environ


@torch.no_grad()
def fit_threads(model: Model, rows: int, length: int | None) -> None:
    """Use the number of threads on which the model reads a batch of this size fastest."""
    on_cpu = model.device is None or model.device.type == "cpu"
    length = length or model.length
    if not on_cpu or length is None or torch.get_num_threads() == 1 or chosen_by_user():
        return
    forward = partial(model.logits if model.linear_head is None else model.body, model.process.prior(rows, length))
    forward()  # the first one allocates memory
    if timeit(forward, number=1) < 0.1:  # beyond, they have enough work to make up for waiting, and timing is not free
        threads, _ = fastest_threads(lambda: min(repeat(forward, repeat=3, number=1)))
        torch.set_num_threads(threads)
