"""From a live run to a checkpoint and back: weights, their average and Adam's moments, always as whole tensors.

So a checkpoint does not depend on how many processes wrote it, or in which parts each held the model.
"""

from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from tokenloom.models.checkpoint import Checkpoint, newest_intact, read_checkpoint
from tokenloom.models.model import DiffusionModel
from tokenloom.training.reporting import Reporter
from tokenloom.training.sharding import cut_like, gather

MOMENTS = ("exp_avg", "exp_avg_sq")


def find_checkpoint(folder: Path, reporter: Reporter) -> Checkpoint:
    """The newest intact checkpoint of a run; damaged ones are named and passed over."""
    path, damaged = newest_intact(folder / "checkpoints")
    for sentence in damaged:
        reporter.say(sentence)
    if path is None:
        raise ValueError(f"{folder} holds no intact checkpoint to resume from")
    saved = read_checkpoint(path)
    reporter.say(f"resuming from step {saved.step}")
    return saved


def restore_weights(saved: Checkpoint, model: DiffusionModel, averaged: AveragedModel) -> None:
    """Load the weights and their average, before the model is cut into parts."""
    model.load_state_dict(saved.tensors["model"])
    averaged.module.load_state_dict(saved.tensors["ema"])
    averaged.n_averaged.fill_(saved.state["averaged"])


def restore_moments(saved: Checkpoint, model: DiffusionModel, optimiser: Any) -> None:
    """Load Adam's moments, after the model is cut into parts."""
    stored = saved.tensors["optimiser"]
    state = {
        index: {"step": stored[f"step.{name}"]} | {key: cut_like(stored[f"{key}.{name}"], parameter) for key in MOMENTS}
        for index, (name, parameter) in enumerate(model.named_parameters())
    }
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def tensors_of(
    model: DiffusionModel, averaged: AveragedModel, optimiser: Any, keep: bool
) -> dict[str, dict[str, Tensor]]:
    """The files of a checkpoint, on the process that keeps them; every process must ask."""
    state = optimiser.state_dict()["state"]
    moments = {
        f"{key}.{name}": value
        for index, (name, _) in enumerate(model.named_parameters())
        for key, value in state.get(index, {}).items()
    }
    groups = {"model": model.state_dict(), "ema": averaged.module.state_dict(), "optimiser": moments}
    return {name: gather(tensors, keep) for name, tensors in groups.items()}
