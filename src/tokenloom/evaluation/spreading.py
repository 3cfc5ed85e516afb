"""Work in shares: processes on this machine, or jobs of a Slurm cluster, through submitit."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from tokenloom.support.extras import optional

Item = TypeVar("Item")


def spread(
    work: Callable[[Sequence[Item]], object], items: Sequence[Item], jobs: Path, workers: int, cluster: str
) -> list[Any]:
    """One job per worker (`local` or `slurm`), each with its share; `job.result()` waits for what `work` returns.

    A process on this machine uses one thread, so that the workers do not wait for each other's.
    """
    submitit = optional("submitit", "evaluate")
    executor = submitit.AutoExecutor(folder=jobs, cluster=cluster)
    executor.update_parameters(timeout_min=24 * 60, name="tokenloom")
    shares = [items[worker::workers] for worker in range(workers)]
    return [executor.submit(_alone, work, share) for share in shares if share]


def _alone(work: Callable[[Sequence[Item]], object], share: Sequence[Item]) -> object:
    if os.environ.get("SUBMITIT_LOCAL_JOB_ID"):
        torch.set_num_threads(1)
    return work(share)
