"""A masked network with the module by which AUDM reads U, as a control of what its parameters alone are worth.

Under masks U is the mask at every position, so the module learns nothing from it: v = [e(x_t), e(mask), 1{x_t = mask}]
goes through the same MLP, beside which a clean token passes unchanged.
"""

import torch

from tokenloom.nn.base import NETWORKS, Hidden, Relations
from tokenloom.nn.conditioning import TokenEmbedding
from tokenloom.nn.networks import DiT
from tokenloom.nn.transformer import TransformerConfig
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

MODULE = "evidence-module"
"""The name of the network."""


@NETWORKS.register(MODULE)
class DiTWithModule(DiT):
    """The transformer of the masked arm behind AUDM's gated fusion, with the mask in the place of U."""

    def __init__(self, config: TransformerConfig, relations: Relations | None = None) -> None:
        super().__init__(config, relations)
        self.embedding = TokenEmbedding(config.num_states, config.width, "gated", config.given)

    def features(
        self,
        tokens: Tokens,
        time: PerRow,
        absorbing: Tokens | None = None,
        given: Flags | None = None,
        evidence: PerPosition | None = None,
    ) -> Hidden:
        """Compute everything but the head, with the mask as U."""
        mask = torch.full_like(tokens, self.num_states - 1)
        return super().features(tokens, time, mask, given)
