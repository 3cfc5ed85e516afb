"""Networks, each split into `features` and `head`."""

from tokenloom.nn.conditioning import grid_relations
from tokenloom.nn.dit import CausalTransformer, DiT, Transformer, TransformerConfig
from tokenloom.nn.grid import GridNetwork
from tokenloom.nn.hollow import HollowTransformer

__all__ = [
    "CausalTransformer",
    "DiT",
    "GridNetwork",
    "HollowTransformer",
    "Transformer",
    "TransformerConfig",
    "grid_relations",
]
