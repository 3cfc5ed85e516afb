"""Run under torchrun: several runs of two processes one after the other, so that PyTorch is imported once.

    python -m torch.distributed.run --nproc-per-node 2 -m tests.training.two_processes FOLDER

FOLDER/alone holds a run of one process.  Beside it come, for each strategy, the same run of two, a copy that is
resumed at its end, and, for a model in parts, a run with dropout, whole and in two halves.
"""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.optim.swa_utils import AveragedModel

from tests.training.helpers import TINY
from tokenloom.cli import main
from tokenloom.training import loop

STRATEGIES = ("ddp", "fsdp")
STEPS = 20
CLIPPED = [*TINY, "--network.depth", "2", "--optimiser.accumulate", "2", "--optimiser.clip", "0.3"]
RUN = [*CLIPPED, "--max-steps", str(STEPS), "--run.valid-rows", "150"]
DROPPING = [*CLIPPED, "--run.strategy", "fsdp", "--network.dropout", "0.1", "--run.valid-rows", "8"]


def share(tensors: Iterable[Any]) -> float:
    """How much of some tensors, which may be in parts, this process holds."""
    found = [(getattr(tensor, "to_local", lambda own=tensor: own)().numel(), tensor.numel()) for tensor in tensors]
    return float(sum(here for here, _ in found) / sum(everywhere for _, everywhere in found))


def train_and_count(folder: Path, strategy: str) -> None:
    """The run, saying at its last step the share of parameters, of moments and of averages that are here."""
    shares: list[float] = []

    def count(optimiser: torch.optim.Optimizer, arguments: Any, options: Any) -> None:
        moments = [value for state in optimiser.state.values() for value in state.values() if value.ndim]
        shares[:] = [share(optimiser.param_groups[0]["params"]), share(moments)]

    update = AveragedModel.update_parameters

    def count_average(self: AveragedModel, model: torch.nn.Module) -> None:
        update(self, model)
        shares.append(share(self.module.parameters()))

    hook = register_optimizer_step_post_hook(count)
    AveragedModel.update_parameters = count_average  # type: ignore[method-assign]
    main(["train", *RUN, "--run.strategy", strategy, "--out", str(folder / strategy)])
    AveragedModel.update_parameters = update  # type: ignore[method-assign]
    hook.remove()
    rank = torch.distributed.get_rank()
    (folder / f"shares-{strategy}-{rank}.txt").write_text(" ".join(f"{number:.3f}" for number in shares))


def resume_at_the_end(folder: Path, strategy: str) -> None:
    again = folder / f"{strategy}-again"
    if torch.distributed.get_rank() == 0:
        shutil.copytree(folder / "alone", again)
    torch.distributed.barrier()
    with patch.object(loop, "ended", return_value=None):  # else it says that it is finished
        main(["train", "--resume", str(again), "--run.strategy", strategy])


if __name__ == "__main__":
    torch.set_num_threads(1)
    place = Path(sys.argv[1])
    for name in STRATEGIES:
        train_and_count(place, name)
        resume_at_the_end(place, name)
    main(["train", *DROPPING, "--max-steps", "8", "--out", str(place / "whole")])
    main(["train", *DROPPING, "--max-steps", "4", "--out", str(place / "half")])
    main(["train", "--resume", str(place / "half"), "--max-steps", "8"])
