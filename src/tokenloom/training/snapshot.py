"""From a live run to a checkpoint and back: weights, their average and Adam's moments, always as whole tensors.

So a checkpoint does not depend on how many processes wrote it, or in which parts each held the model (FSDP2).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from tokenloom.models.checkpoint import Checkpoint, checkpoints, newest_intact
from tokenloom.models.model import DiffusionModel
from tokenloom.models.tensors import check_tensors
from tokenloom.support.checks import check_least
from tokenloom.support.files import check_ours
from tokenloom.support.registry import build
from tokenloom.training.config import TrainConfig, check_same, from_record, read_config
from tokenloom.training.reporting import Reporter

PARTS = ("config.json", "metrics.jsonl", "checkpoints", "best", "model", "evaluation", "events.out.*", "wandb", ".*")
"""Patterns of what a run leaves in its folder."""
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class State:
    """The contents of state.json beside the step."""

    best: float | None
    """The best validation figure so far."""
    averaged: int
    """Steps in the average of the weights."""
    rows_seen: int
    minutes: float
    done: bool
    """True if the run came to its end, with its model written."""
    config: dict[str, Any]


def check_free(folder: Path) -> None:
    """Raise unless a new run may begin in a folder: it holds no checkpoint and nothing that is not of a run."""
    remedy = "choose another --out"
    if checkpoints(folder / "checkpoints"):
        raise ValueError(f"{folder} already holds a run: continue it with --resume {folder}, or {remedy}")
    check_ours(folder, PARTS, "a run", remedy)
    if (folder / "config.json").exists():
        try:
            read_config(folder / "config.json")
        except ValueError as error:
            raise ValueError(f"{error}; a new run would replace it, so {remedy}") from error


def find_checkpoint(folder: Path, config: TrainConfig, reporter: Reporter) -> Checkpoint:
    """Read the newest intact checkpoint of a run, of the same config; damaged ones are named and passed over."""
    saved, damaged = newest_intact(folder / "checkpoints")
    for sentence in damaged:
        reporter.say(sentence)
    if saved is None:
        raise ValueError(f"{folder} holds no intact checkpoint to resume from")
    state = build(State, saved.state, f"the state of step {saved.step}")
    check_least(state, averaged=0, rows_seen=0, minutes=0)
    check_same(from_record(state.config), config)
    reporter.say(f"resuming from step {saved.step}")
    best = math.inf if state.best is None else state.best  # JSON has no infinity, as before the first validation
    return replace(saved, state=asdict(state) | {"best": best})


def restore_weights(saved: Checkpoint, model: DiffusionModel, averaged: AveragedModel) -> None:
    """Load the weights and their average, before the model is cut into parts."""
    for part, group in ((model, "model"), (averaged.module, "ema")):
        stored = saved.tensors[group]
        check_tensors(part.state_dict(), stored, f"the tensors {group} of the checkpoint")
        part.load_state_dict(stored)
    averaged.n_averaged.fill_(saved.state["averaged"])


def restore_moments(saved: Checkpoint, model: DiffusionModel, optimiser: Any) -> None:
    """Load Adam's moments, after the model is cut into parts; a parameter that never had a gradient has none."""
    stored = saved.tensors["optimiser"]
    moved = [(index, *item) for index, item in enumerate(model.named_parameters()) if f"step.{item[0]}" in stored]
    shapes = {f"{key}.{name}": parameter.shape for _, name, parameter in moved for key in MOMENTS}
    shapes |= {f"step.{name}": torch.Size() for _, name, _ in moved}
    expected = {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}
    check_tensors(expected, stored, "the moments of the checkpoint")
    state = {
        index: {"step": stored[f"step.{name}"]} | {key: cut_like(stored[f"{key}.{name}"], parameter) for key in MOMENTS}
        for index, name, parameter in moved
    }
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})


def tensors_of(
    model: DiffusionModel, averaged: AveragedModel, optimiser: Any, keep: bool
) -> dict[str, dict[str, Tensor]]:
    """Gather the tensors of a checkpoint on the rank that keeps them.  Collective: call on every rank."""
    state = optimiser.state_dict()["state"]
    moments = {
        f"{key}.{name}": value
        for index, (name, _) in enumerate(model.named_parameters())
        for key, value in state.get(index, {}).items()
    }
    groups = {"model": model.state_dict(), "ema": averaged.module.state_dict(), "optimiser": moments}
    return {name: gather(tensors, keep) for name, tensors in groups.items()}


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor that may be in parts.  Collective: call on every rank."""
    full: Callable[[], Tensor] | None = getattr(tensor, "full_tensor", None)
    return tensor if full is None else full()


def gather(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Return whole tensors on the host of a rank that keeps them, else none.  Collective: call on every rank."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        full = whole(tensor.detach())  # one at a time: a device never holds the whole model
        if keep:
            found[name] = full.cpu().contiguous()
    return found


def cut_like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Cut a whole tensor into the parts of a parameter."""
    mesh = getattr(parameter, "device_mesh", None)
    if mesh is None:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, mesh, parameter.placements)  # type: ignore[attr-defined]
