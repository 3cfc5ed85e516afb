"""Causal architectures that were trained as masked denoisers (LLaDA, Dream, DiffuCoder, A2D): every position sees all.

Llama, Qwen2 and Qwen3 take an attention mask that is added to the scores, [batch, 1, length, length]; one of zeros
hides nothing.  Networks that grew out of a next-token model keep its alignment (`shift`): the prediction for position l
is the output at l - 1, and position 0, which has none, repeats the one for position 1.  Give it a first token.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.nn.base import NETWORKS
from tokenloom.nn.hugging_face import Pretrained, PretrainedConfig
from tokenloom.types import Tokens


@dataclass(frozen=True)
class BidirectionalConfig(PretrainedConfig):
    """A causal architecture and how its outputs are aligned."""

    shift: bool = False
    """Read the prediction for l from the output at l - 1."""


@NETWORKS.register("bidirectional-lm")
class BidirectionalLM(Pretrained):
    """A causal architecture of the library transformers in which every position sees every position."""

    Config = BidirectionalConfig
    auto = "AutoModelForCausalLM"
    config: BidirectionalConfig

    def read(self, tokens: Tokens) -> Float[Tensor, "batch length width"]:
        batch, length = tokens.shape
        dtype = self.body.get_input_embeddings().weight.dtype
        hides_nothing = torch.zeros(1, 1, length, length, device=tokens.device, dtype=dtype)
        mask = hides_nothing.expand(batch, 1, length, length)
        features: Tensor = self.body(input_ids=tokens, attention_mask=mask, use_cache=False, return_dict=True).logits
        return torch.cat([features[:, :1], features[:, :-1]], 1) if self.config.shift else features
