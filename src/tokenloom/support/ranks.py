"""Several processes that share the work of one command: `torchrun --nproc-per-node 4 -m tokenloom ...`.

torchrun tells each process its number and how many there are.  Work is cut by rows or by items, each with a seed of its
own, so the result is the same whatever their number.  Process 0 speaks and writes; the others compute.
"""

import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

WAIT = datetime.timedelta(hours=24)
"""How long a process waits for the slowest; torchrun ends all of them when one dies."""

TOLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE")
"""What torchrun tells a process."""


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is."""

    rank: int = 0
    count: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.count:
            raise ValueError(f"RANK must be in 0..{self.count - 1}, got {self.rank}; start processes with torchrun")

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks and writes."""
        return self.rank == 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Processes that can wait for each other and add tensors; nothing is set up for a single one."""
        if self.count == 1:
            yield
            return
        torch.distributed.init_process_group("gloo", timeout=WAIT)
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()

    def wait(self) -> None:
        """Until all processes are here."""
        if self.count > 1:
            with _of_others():
                torch.distributed.barrier()

    def add(self, tensor: Tensor) -> Tensor:
        """The sum of a tensor over all processes."""
        total = tensor.cpu().clone()
        if self.count > 1:
            with _of_others():
                torch.distributed.all_reduce(total)
        return total.to(tensor.device)


@contextmanager
def _of_others() -> Iterator[None]:
    """A wait for other processes, which may never come."""
    try:
        yield
    except RuntimeError as error:  # gloo's, where a connection was closed
        raise ValueError(
            "another process of this command has ended, so this one cannot finish its work; what is finished is kept: "
            "see what the other one said, and start the same command again"
        ) from error


@contextmanager
def on_its_own() -> Iterator[None]:
    """A block in which this process looks as if it were alone, for work that would otherwise join the others."""
    told = {name: os.environ.pop(name) for name in list(os.environ) if name in TOLD or name.startswith("TORCHELASTIC")}
    try:
        yield
    finally:
        os.environ.update(told)


def ranks() -> Ranks:
    """As torchrun says; alone without it."""
    found = []
    for name, alone in (("RANK", "0"), ("WORLD_SIZE", "1")):
        text = os.environ.get(name, alone)
        if not text.isdigit():
            raise ValueError(f"{name} must be a whole number, as torchrun sets it, got {text!r}")
        found.append(int(text))
    return Ranks(*found)
