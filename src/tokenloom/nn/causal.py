"""A causal transformer, the autoregressive baseline: the output at a position sees the tokens before it."""

import torch
from torch import nn

from tokenloom.nn.attention import Hidden
from tokenloom.nn.base import NETWORKS
from tokenloom.nn.block import Condition
from tokenloom.nn.transformer import Transformer, TransformerConfig


@NETWORKS.register("causal")
class CausalTransformer(Transformer):
    """Blocks of attention to what came before, over the sequence moved by one position."""

    causal = True

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.start = nn.Parameter(0.02 * torch.randn(config.width))
        self.blocks = self._blocks(config.depth)

    def encode(self, x: Hidden, condition: Condition) -> Hidden:
        start = self.start.to(x.dtype).expand(len(x), 1, -1)
        x = torch.cat([start, x[:, :-1]], 1)
        for block in self.blocks:
            x = block(x, condition, "before")
        return x
