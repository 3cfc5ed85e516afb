"""Several processes that share the work of one command: `torchrun --nproc-per-node 4 -m tokenloom ...`, or `--workers`.

torchrun gives each process its rank and their number; rank 0 prints and writes, the others compute.  Workers are
processes on this machine, or jobs of a Slurm cluster, that submitit starts.  Work is cut by rows or by items, each with
a seed of its own, so the result is the same for any number of processes.
"""

import datetime
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenloom.support.extras import optional

Work = Callable[[Sequence[Any]], object]


@dataclass(frozen=True)
class Ranks:
    """The rank of this process, and how many there are."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """True for the process that prints and writes."""
        return self.rank == 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Connect the processes, so that they can wait for each other and add tensors; a single one needs nothing."""
        if self.count == 1:
            yield
            return
        longest = datetime.timedelta(hours=24)  # for the slowest process; torchrun ends all of them when one dies
        torch.distributed.init_process_group("gloo", timeout=longest)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()

    def wait(self) -> None:
        """Block until every rank arrives."""
        self.add(torch.zeros(1))

    def add(self, tensor: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks."""
        total = tensor.cpu().clone()
        if self.count > 1:
            try:
                torch.distributed.all_reduce(total)
            except RuntimeError as error:  # gloo's, where a connection was closed
                raise ValueError(
                    "another process of this command has ended, so this one cannot finish its work; what is finished "
                    "is kept: see what the other one said, and start the same command again"
                ) from error
        return total.to(tensor.device)


def ranks() -> Ranks:
    """Return rank and world size from the environment, else those of a single process."""
    texts = {"RANK": os.environ.get("RANK", "0"), "WORLD_SIZE": os.environ.get("WORLD_SIZE", "1")}
    for name, text in texts.items():
        if not text.isdigit():
            raise ValueError(f"{name} must be a whole number, as torchrun sets it, got {text!r}")
    rank, count = map(int, texts.values())
    if rank >= count:
        raise ValueError(f"RANK must be in 0..{count - 1}, got {rank}; start processes with torchrun")
    return Ranks(rank, count)


def check_workers(workers: int, cluster: str) -> None:
    """Raise unless `spread` can start so many workers."""
    if workers < 1:
        raise ValueError(f"--workers must be at least 1, got {workers}")
    if cluster == "slurm" and shutil.which("srun") is None:
        raise ValueError("--cluster slurm needs Slurm's srun, which is not found on this machine; use --cluster local")


def spread(work: Work, items: Sequence[Any], jobs: Path, workers: int, cluster: str) -> list[Any]:
    """Give every worker (`local` or `slurm`) its share of the items, and return what `work` makes of each share."""
    executor = optional("submitit", "evaluate").AutoExecutor(folder=jobs, cluster=cluster)
    executor.update_parameters(timeout_min=24 * 60, name="tokenloom")
    shares = [items[worker::workers] for worker in range(workers)]
    return [job.result() for job in [executor.submit(_alone, work, share) for share in shares if share]]


def _alone(work: Work, share: Sequence[Any]) -> object:
    if os.environ.get("SUBMITIT_LOCAL_JOB_ID"):  # on this machine, where workers would wait for each other's threads
        torch.set_num_threads(1)
    return work(share)
