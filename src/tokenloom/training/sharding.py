"""A model in parts (FSDP2), and whole again for a file.

Of P processes each keeps 1/P of every parameter, its gradient, its moments and its average.  A block is whole only
while it runs.  What lies outside the blocks (embedding, time, head) is whole while the root runs, and the loss, which
reads the head's weight itself, is computed inside the root for that reason.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import Tensor, nn

from tokenloom.models.model import DiffusionModel
from tokenloom.nn.block import Block

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
