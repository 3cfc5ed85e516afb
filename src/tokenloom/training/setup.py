"""The parts that a loop runs on: the processes, the optimiser and the average of the weights.

With FSDP2, each of P processes keeps 1/P of every parameter, its gradient, its moments and its average.  A block is
whole only while it runs.  What lies outside the blocks (embedding, time, head) is whole while the root runs, and the
loss, which reads the head's weight itself, is computed inside the root for that reason.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from tokenloom.data.base import Dataset
from tokenloom.models.checkpoint import Checkpoint
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import unwrapped
from tokenloom.nn.block import Block
from tokenloom.objectives.base import Objective
from tokenloom.objectives.head_loss import loss_at
from tokenloom.support.extras import optional
from tokenloom.training.batches import Batch
from tokenloom.training.build import build_model, method_in, objective_of
from tokenloom.training.config import TrainConfig
from tokenloom.training.methods import Method
from tokenloom.training.snapshot import restore_moments, restore_weights

Value = TypeVar("Value")


class Root(nn.Module):
    """The module that a strategy wraps: its call is any function of the model.

    The function carries its inputs, which no strategy then converts or copies, and returns a tensor.
    """

    def __init__(self, model: DiffusionModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[[DiffusionModel], Value]) -> Value:
        return work(self.model)


def shard(root: nn.Module, mesh: Any) -> nn.Module:
    """Cut the parameters over the data-parallel dimension of a device mesh, block by block, in place."""
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise ValueError("--run.strategy fsdp needs PyTorch 2.6 or later; use --run.strategy ddp") from error
    own = mesh["data_parallel"]
    for block in [module for module in root.modules() if isinstance(module, Block)]:
        fully_shard(block, mesh=own)
    fully_shard(root, mesh=own)
    return root


def launch(config: TrainConfig) -> Any:
    """Start Fabric on one process, or on as many as torchrun says, each with the whole model (DDP) or a part (FSDP)."""
    Fabric = optional("lightning_fabric", "train").Fabric
    world, local = (int(os.environ.get(name, "1")) for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    strategy: Any = "auto" if world == 1 else "ddp"
    if world > 1 and config.run.strategy == "fsdp":
        parallel = optional("lightning_fabric.strategies.model_parallel", "train")
        strategy = parallel.ModelParallelStrategy(shard, data_parallel_size=world, tensor_parallel_size=1)
    accelerator = "cuda" if torch.cuda.is_available() else "cpu"
    hardware = {"accelerator": accelerator, "devices": local, "num_nodes": world // local}
    fabric = Fabric(strategy=strategy, precision=config.run.precision, **hardware)
    if world > 1:
        fabric.launch()
    return fabric


def prepare(model: DiffusionModel, config: TrainConfig) -> DiffusionModel:
    """Return the model, compiled and its blocks recomputed where the config says so."""
    options = config.run
    if options.compile and options.strategy == "fsdp" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("--run.compile cannot be combined with --run.strategy fsdp; leave one of them out")
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if options.recompute and not blocks:
        raise ValueError(
            f"--run.recompute is for the blocks of dit, causal and hollow, and {unwrapped(model.network).name} has "
            "none; raise --optimiser.accumulate instead"
        )
    for block in blocks:
        block.recompute = options.recompute
    if options.compile:
        model.compile()
    return model


def adam(model: DiffusionModel, config: TrainConfig) -> torch.optim.Adam:
    """Return Adam as configured; the loop sets the learning rate of every step."""
    options = config.optimiser
    return torch.optim.Adam(model.parameters(), options.lr, (options.beta1, options.beta2), options.eps)


def batch_loss(model: DiffusionModel, batch: Batch, method: Method, objective: Objective) -> Tensor:
    """Return the weighted mean loss of a batch, noised as the method says."""
    noisy = method.corrupted(batch.x_0, objective.times(batch.t), batch.randomness, batch.given)
    return loss_at(model, objective, batch.x_0, noisy, batch.weights).mean


@dataclass
class Learner:
    """A model, the average of its weights, and what steps them, each where its process keeps it."""

    model: DiffusionModel
    method: Method
    objective: Objective
    averaged: AveragedModel
    root: Any
    """The model as a strategy wraps it."""
    averaged_root: Root
    optimiser: Any

    @classmethod
    def build(cls, config: TrainConfig, data: Dataset, fabric: Any, saved: Checkpoint | None) -> "Learner":
        """Build a fresh learner, or restore the one that a checkpoint left."""
        with fabric.init_module():
            torch.manual_seed(config.run.seed)
            model = prepare(build_model(config, data), config)
        averaged = AveragedModel(model, multi_avg_fn=warm_average(config.optimiser.ema))
        if saved is not None:
            restore_weights(saved, model, averaged)
        average = averaged.module
        assert isinstance(average, DiffusionModel)
        root, averaged_root = fabric.setup_module(Root(model)), Root(average)
        mesh = getattr(fabric.strategy, "device_mesh", None)
        if mesh is None:
            averaged.to(fabric.device)
        else:
            shard(averaged_root, mesh)  # in the same parts as its model
        optimiser = fabric.setup_optimizers(adam(model, config))
        if saved is not None:
            restore_moments(saved, model, optimiser)
        method = method_in(config, model.process.vocab_size, data)
        return cls(model, method, objective_of(config), averaged, root, averaged_root, optimiser)

    def backward(self, batch: Batch, fabric: Any, last: bool) -> Tensor:
        """Add the gradient of a part of a step, and return its loss; with the `last` part processes exchange theirs."""
        loss = partial(batch_loss, batch=batch, method=self.method, objective=self.objective)
        with fabric.no_backward_sync(self.root, enabled=not last):
            value: Tensor = self.root(loss) * fabric.world_size
            fabric.backward(value)
        return value.detach()


def warm_average(decay: float) -> Callable[..., None]:
    """Return an exponential moving average that starts short and lengthens to its decay."""

    @torch.no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
        weight = min(decay, (1 + int(count)) / (10 + int(count)))
        torch._foreach_lerp_(averaged, current, 1 - weight)

    return update
