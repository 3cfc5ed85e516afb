"""The parts that a loop runs on: the processes, the model, the average of its weights and the optimiser.

With FSDP2, each of P processes keeps 1/P of every parameter, its gradient, its moments and its average.  A block is
whole only while it runs.  What lies outside the blocks (embedding, time, head) is whole while the root runs, and the
loss, which reads the head's weight itself, is computed inside the root for that reason.  A checkpoint holds whole
tensors, so it does not depend on how many processes wrote it, or in which parts each held the model.
"""

import copy
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from tokenloom.data.base import Dataset
from tokenloom.drawing.randomness import RowGenerators
from tokenloom.models.checkpoint import Checkpoint
from tokenloom.models.model import DiffusionModel
from tokenloom.models.network import unwrapped
from tokenloom.models.tensors import check_tensors
from tokenloom.nn.block import Block
from tokenloom.objectives.base import Objective
from tokenloom.objectives.head_loss import loss_at
from tokenloom.support.extras import optional
from tokenloom.training.batches import Batch
from tokenloom.training.build import build_model, method_in, objective_of
from tokenloom.training.config import TrainConfig
from tokenloom.training.methods import Method
from tokenloom.training.muon import Muon, matrices_of

ADAM = ("step", "exp_avg", "exp_avg_sq")


class Root(nn.Module):
    """The module that a strategy wraps: it calls a function of the model, whose inputs no strategy then converts."""

    def __init__(self, model: DiffusionModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[[DiffusionModel], Tensor]) -> Tensor:
        return work(self.model)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Root":
        """Copy what is trained and share what is frozen: the average of adapters needs no second network."""
        memo |= {id(part): part for part in self.parameters() if not part.requires_grad}
        return Root(copy.deepcopy(self.model, memo))


def shard(root: nn.Module, mesh: Any) -> nn.Module:
    """Cut the parameters over the data-parallel dimension of a device mesh, block by block, in place."""
    from torch.distributed.fsdp import fully_shard

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
    if config.optimiser.kind == "muon" and options.strategy == "fsdp" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("--optimiser.kind muon needs whole matrices on each process; leave out --run.strategy fsdp")
    if options.sample_every and options.strategy == "fsdp" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("--run.sample-every needs the whole model on each process; leave out --run.strategy fsdp")
    if options.compile and model.answer_every is not None:
        raise ValueError("--run.compile cannot be combined with --network.answer-every; leave one of them out")
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    if options.recompute and not blocks:
        raise ValueError(f"--run.recompute is for dit, causal and hollow, got {unwrapped(model.network).name}")
    for block in blocks:
        block.recompute = options.recompute
    if options.compile:
        model.compile()
    return model


def optimiser_of(model: DiffusionModel, config: TrainConfig) -> torch.optim.Optimizer:
    """Return AdamW, or Muon, as configured; the loop sets the learning rate of every step."""
    options = config.optimiser
    known = (options.lr, (options.beta1, options.beta2), options.eps, options.weight_decay)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if options.kind == "adamw":
        return torch.optim.AdamW(trained, *known)
    matrices = matrices_of(unwrapped(model.network))
    if not matrices:
        network = unwrapped(model.network).name
        raise ValueError(f"--optimiser.kind muon moves matrices, and the network {network} has none; use adamw")
    moved = {id(weight) for weight in matrices}
    return Muon([parameter for parameter in trained if id(parameter) not in moved], matrices, *known)


def batch_loss(model: DiffusionModel, batch: Batch, method: Method, objective: Objective) -> Tensor:
    """Return the weighted mean loss of a batch, noised as the method says; of all answers of a network with several."""
    noisy = method.corrupted(batch.x_0, objective.times(batch.t), RowGenerators(batch.seeds), batch.given)
    if model.answer_every is None:
        return loss_at(model, objective, batch.x_0, noisy, batch.weights).mean
    device = model.device or batch.x_0.device
    x_0, noisy, weights = batch.x_0.to(device), noisy.to(device), batch.weights.to(device)
    found = [loss_at(model, objective, x_0, noisy, weights, part).mean for part in model.stages(noisy)]
    return torch.stack(found).mean()


class Learner:
    """A model, the average of its weights, and what steps them, each where its process keeps it."""

    def __init__(self, config: TrainConfig, data: Dataset, fabric: Any, saved: Checkpoint | None) -> None:
        with fabric.init_module():
            torch.manual_seed(config.run.seed)
            self.model = prepare(build_model(config, data), config)
        self.adapters = config.lora is not None
        self.method, self.objective = method_in(config, self.model.process.vocab_size, data), objective_of(config)
        self.averaged = AveragedModel(Root(self.model), multi_avg_fn=partial(warm_average, config.optimiser.ema))
        self.averaged_root: Root = self.averaged.module  # type: ignore[assignment]
        if saved is not None:  # before the model is cut into parts
            for part, group in ((self.model, "model"), (self.averaged_root.model, "ema")):
                check_tensors(self.kept(part), saved.tensors[group], f"the tensors {group} of the checkpoint")
                part.load_state_dict(saved.tensors[group], strict=False)
            self.averaged.n_averaged.fill_(saved.state["averaged"])
        self.root = fabric.setup_module(Root(self.model))  # as the strategy wraps it
        mesh = getattr(fabric.strategy, "device_mesh", None)
        if mesh is None:
            self.averaged.to(fabric.device)
        else:
            shard(self.averaged_root, mesh)  # in the same parts as its model
        self.optimiser = fabric.setup_optimizers(optimiser_of(self.model, config))
        if saved is not None:
            self._restore_moments(saved.tensors["optimiser"])

    def _restore_moments(self, stored: Mapping[str, Tensor]) -> None:
        """Load the moments, after the model is cut into parts; a parameter that never had a gradient has none."""
        expected, state = dict[str, Tensor](), dict[int, dict[str, Tensor]]()
        for index, (name, value, keys) in enumerate(self._trained()):
            names = {key: f"{key}.{name}" for key in keys}
            if names[keys[0]] in stored:
                expected |= {names[key]: torch.empty(()) if key == "step" else value for key in keys}
                state[index] = {key: cut_like(stored[each], value) for key, each in names.items() if each in stored}
        check_tensors(expected, stored, "the moments of the checkpoint")
        self.optimiser.load_state_dict({"state": state, "param_groups": self.optimiser.state_dict()["param_groups"]})

    def tensors(self, keep: bool) -> dict[str, dict[str, Tensor]]:
        """Gather the tensors of a checkpoint on the rank that keeps them.  Collective: call on every rank."""
        state = self.optimiser.state_dict()["state"]
        moments = {
            f"{key}.{name}": value
            for index, (name, _, _) in enumerate(self._trained())
            for key, value in state.get(index, {}).items()
        }
        groups = {"model": self.kept(self.model), "ema": self.kept(self.averaged_root.model), "optimiser": moments}
        return {name: gather(tensors, keep) for name, tensors in groups.items()}

    def kept(self, part: nn.Module) -> dict[str, Tensor]:
        """Return what a run keeps of a part of its model: the whole state, or that of its adapters alone."""
        trained = {name for name, parameter in part.named_parameters() if parameter.requires_grad}
        return {name: value for name, value in part.state_dict().items() if not self.adapters or name in trained}

    def _trained(self) -> list[tuple[str, nn.Parameter, tuple[str, ...]]]:
        """Return the parameters that the optimiser steps, in its order, with their names and those of their moments."""
        names = {id(value): name for name, value in self.model.named_parameters()}
        groups = [(group["params"], group.get("moments", ADAM)) for group in self.optimiser.param_groups]
        return [(names[id(value)], value, keys) for values, keys in groups for value in values]


@torch.no_grad()
def warm_average(decay: float, averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
    """Update an exponential moving average that starts short and lengthens to its decay."""
    weight = min(decay, (1 + int(count)) / (10 + int(count)))
    pairs = [pair for pair in zip(averaged, current, strict=True) if not shared(*pair)]
    torch._foreach_lerp_([own for own, _ in pairs], [new for _, new in pairs], 1 - weight)


def shared(first: Tensor, second: Tensor) -> bool:
    """Return whether two parameters, none of them in parts, are the same memory."""
    return not hasattr(first, "device_mesh") and first.data_ptr() == second.data_ptr()


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
    """Cut a whole tensor into the parts of a parameter; a single number, as Adam's step is, stays whole."""
    mesh = getattr(parameter, "device_mesh", None)
    if mesh is None or not tensor.ndim:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(tensor, mesh, parameter.placements)  # type: ignore[attr-defined]
