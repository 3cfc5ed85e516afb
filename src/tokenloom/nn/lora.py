r"""Low-rank adapters (LoRA) in the linear maps of a network's blocks.

    y = W x + b + (alpha / r) B A x,        A: [r, in],  B: [out, r],  alpha = 2 r

A and B alone are trained.  B begins at zero, so a fresh adapter changes nothing, and W + (alpha / r) B A is the weight
of a plain layer with the same outputs up to rounding.  The library peft puts them in; merging needs no library.
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tokenloom.support.extras import optional

SCALE = 2.0
"""alpha / r, for every rank: a learning rate that suits one rank suits another."""
PARTS = ("lora_A.default.weight", "lora_B.default.weight")
"""Names, as of peft, of A and B below a linear map."""


def adaptable(network: nn.Module) -> dict[str, nn.Linear]:
    """Return the linear maps of the blocks by name: those inside a list of modules, which no head is."""
    lists = tuple(f"{name}." for name, module in network.named_modules() if isinstance(module, nn.ModuleList))
    return {
        name: module
        for name, module in network.named_modules()
        if type(module) is nn.Linear and name.startswith(lists or ("\0",))
    }


def check_rank(network: nn.Module, rank: int) -> None:
    """Raise unless a network has linear maps to adapt and each is at least of this rank."""
    layers = adaptable(network)
    if not layers:
        raise ValueError(f"--lora {rank} found no linear map in the blocks of {type(network).__name__}; leave it out")
    name, least = min(
        ((name, min(layer.in_features, layer.out_features)) for name, layer in layers.items()), key=lambda item: item[1]
    )
    if not 1 <= rank <= least:
        raise ValueError(f"--lora must be a rank in 1..{least}, the smaller side of {name}, got {rank}")


def adapt(network: nn.Module, rank: int) -> None:
    """Put fresh adapters into a network, in place; from then on they alone are trained."""
    library = optional("peft", "lora")
    config = library.LoraConfig(r=rank, lora_alpha=SCALE * rank, target_modules=list(adaptable(network)))
    library.inject_adapter_in_model(config, network)


def expected(network: nn.Module, rank: int) -> dict[str, Tensor]:
    """Return tensors without values of the names and shapes of a network's adapters."""
    shapes = {
        name: ((rank, layer.in_features), (layer.out_features, rank)) for name, layer in adaptable(network).items()
    }
    return {
        f"{name}.{part}": torch.empty(shape, device="meta")
        for name, both in shapes.items()
        for part, shape in zip(PARTS, both, strict=True)
    }


@torch.no_grad()
def merge(network: nn.Module, adapters: Mapping[str, Tensor]) -> None:
    """Add adapters to the weights of a plain network, in place."""
    for name, layer in adaptable(network).items():
        A, B = (adapters[f"{name}.{part}"] for part in PARTS)
        layer.weight += (SCALE * (B @ A)).to(layer.weight.dtype)


@torch.no_grad()
def merged_state(network: nn.Module) -> dict[str, Tensor]:
    """Return the state of a network as it is once the layers of peft in it, if any, are merged; it stays as it is."""
    state = dict(network.state_dict())
    foreign = {name: part for name, part in network.named_modules() if type(part).__module__.startswith("peft.")}
    layers: dict[str, Any] = {name: part for name, part in foreign.items() if hasattr(part, "get_base_layer")}
    inside = tuple(f"{name}." for name in layers)
    for name, part in foreign.items():
        if name not in layers and not name.startswith(inside or ("\0",)):
            raise ValueError(
                f"the network holds a {type(part).__name__} of peft at {name or 'its root'}, which cannot be merged "
                "into a plain network; save the adapters with peft, or take it out first"
            )
    for name, layer in layers.items():
        plain = copy.deepcopy(layer)  # one layer at a time; unmerging it in place would leave rounding errors
        plain.merge()
        state = {key: value for key, value in state.items() if not key.startswith(f"{name}.")}
        state |= {f"{name}.{key}": value for key, value in plain.get_base_layer().state_dict().items()}
    return state
