"""Networks, each split into `features` and `head`."""

from tokenloom.nn.base import NETWORKS, Network, NetworkOptions, Task
from tokenloom.nn.causal import CausalTransformer
from tokenloom.nn.dit import DiT
from tokenloom.nn.hollow import HollowTransformer
from tokenloom.nn.transformer import Transformer, TransformerConfig, TransformerOptions

__all__ = [
    "NETWORKS",
    "CausalTransformer",
    "DiT",
    "HollowTransformer",
    "Network",
    "NetworkOptions",
    "Task",
    "Transformer",
    "TransformerConfig",
    "TransformerOptions",
]
