"""What a loop runs on: the processes, the optimiser and the average of the weights."""

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tokenloom.model import DiffusionModel
from tokenloom.training.config import TrainConfig


def launch(config: TrainConfig) -> Any:
    """One process, or as many as torchrun's environment says, each with the whole model (DDP)."""
    try:
        from lightning_fabric import Fabric
    except ImportError as error:
        raise ValueError('training needs Lightning Fabric: pip install "tokenloom[train]"') from error
    world, local = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    if world == 1:
        return Fabric(accelerator=accelerator, devices=1, precision=config.run.precision)
    nodes = world // local
    fabric = Fabric(
        accelerator=accelerator, strategy="ddp", devices=local, num_nodes=nodes, precision=config.run.precision
    )
    fabric.launch()
    return fabric


def adam(model: DiffusionModel, config: TrainConfig) -> torch.optim.Adam:
    """Adam as configured; the loop sets the learning rate of every step."""
    options = config.optimiser
    return torch.optim.Adam(model.parameters(), options.lr, (options.beta1, options.beta2), options.eps)


def warm_average(decay: float) -> Callable[..., None]:
    """An exponential moving average that starts short and lengthens to its decay."""

    @torch.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
        weight = min(decay, (1 + int(count)) / (10 + int(count)))
        torch._foreach_lerp_(averaged, current, 1 - weight)

    return update
