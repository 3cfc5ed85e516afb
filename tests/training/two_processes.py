"""Several runs of two processes one after the other, under torchrun's own agent, which imports PyTorch once and forks.

    python -m tests.training.two_processes FOLDER

FOLDER/alone holds a run of one process.  Beside it come, for each strategy, the same run of two, a copy of the first
that is resumed at its end, and adapters to it; a run that draws samples; and, for a model in parts, a run with dropout
and a copy that is resumed half-way.
"""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import lightning_fabric.strategies.model_parallel  # noqa: F401  # before the fork
import torch
import torch.distributed.fsdp
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.optim.swa_utils import AveragedModel

from tests.training.helpers import TINY
from tokenloom.cli import main
from tokenloom.training import loop

STRATEGIES = ("ddp", "fsdp")
STEPS = 6
CLIPPED = [*TINY, "--network.depth", "2", "--optimiser.accumulate", "2", "--optimiser.clip", "0.3"]
RUN = [*CLIPPED, "--max-steps", str(STEPS), "--run.valid-rows", "150"]
SAMPLED = [*CLIPPED, "--max-steps", "2", "--run.valid-rows", "8", "--run.sample-every", "1"]
DROPPING = [
    *CLIPPED, "--run.strategy", "fsdp", "--network.dropout", "0.1", "--run.valid-rows", "8",
    "--max-steps", "4", "--run.checkpoint-every", "2",
]  # fmt: skip


ADAPTED = [
    "--lora", "2", "--optimiser.batch", "8", "--optimiser.warmup", "2", "--max-steps", "3", "--run.valid-rows", "150",
]  # fmt: skip


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


def resume_copy(folder: Path, source: str, copy: str, *options: str, last: int | None = None) -> None:
    """Resume a copy of a run, without its checkpoint of step `last` or at its very end."""
    if torch.distributed.get_rank() == 0:
        shutil.copytree(folder / source, folder / copy)
        if last is not None:
            shutil.rmtree(folder / copy / "checkpoints" / f"step_{last:09d}")
    torch.distributed.barrier()
    with patch.object(loop, "ended", return_value=None):  # else it says that it is finished
        main(["train", "--resume", str(folder / copy), *options])


def all_runs(place: Path) -> None:
    torch.set_num_threads(1)
    for name in STRATEGIES:
        train_and_count(place, name)
        resume_copy(place, "alone", f"{name}-again", "--run.strategy", name)
        begun = ["--from", str(place / "alone"), *ADAPTED, "--run.strategy", name]
        main(["train", *begun, "--out", str(place / f"adapted-{name}")])
    main(["train", *SAMPLED, "--run.strategy", "ddp", "--out", str(place / "sampled-ddp")])
    main(["train", *DROPPING, "--out", str(place / "whole")])
    resume_copy(place, "whole", "half", last=4)


if __name__ == "__main__":
    agent = LaunchConfig(
        1, 1, 2, rdzv_backend="c10d", rdzv_endpoint="localhost:0", start_method="fork", monitor_interval=0.1
    )
    elastic_launch(agent, all_runs)(Path(sys.argv[1]))
