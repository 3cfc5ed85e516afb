r"""Transformers by what the output at a position may see: every input, all but its own, or those before it.

A hollow one provably does not depend on its own input.  Two streams run over the sequence, f^l from the tokens before l
and b^l from the tokens after l.  A third, g, starts from (f^l, b^l) and is refined by attention to f^j for j <= l and
b^j for j >= l.  None of these has seen token l.  Its prediction is a leave-one-out posterior by construction.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn

from tokenloom.nn.base import NETWORKS, Hidden, Relations
from tokenloom.nn.block import Condition
from tokenloom.nn.transformer import Transformer, TransformerConfig
from tokenloom.support.typed import check_type


@NETWORKS.register("dit")
class DiT(Transformer):
    """The diffusion transformer of the field (DDiT): rotary positions, adaLN on the time, a head that starts at zero.

    Every position sees every position; each kind of `relations`, as of a grid's cells, learns an attention bias.
    """

    takes_relations = True

    def __init__(self, config: TransformerConfig, relations: Relations | None = None) -> None:
        check_type("relations", relations, Tensor | None)
        super().__init__(config)
        length = config.length
        if relations is not None and relations.shape[1:] != (length, length):
            raise ValueError(f"relations must have shape [kinds, {length}, {length}], got {list(relations.shape)}")
        self.blocks = self._blocks(config.depth, relations)

    def constants(self) -> dict[str, Tensor]:
        buffers = [buffer for name, buffer in self.blocks[0].named_buffers() if name.endswith("relations")]
        return {"relations": buffers[0]} if buffers else {}

    def loop(self, x: Hidden, condition: Condition) -> Hidden:
        for block in self.blocks:
            x = block(x, condition)
        return x


@NETWORKS.register("causal")
class CausalTransformer(Transformer):
    """The autoregressive baseline: blocks of attention to what came before, over the sequence moved by one position."""

    causal = True

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.start = nn.Parameter((3 * config.width) ** -0.5 * torch.randn(config.width))
        self.blocks = self._blocks(config.depth)

    def encode(self, x: Hidden, condition: Condition) -> Hidden:
        start = self.start.to(x.dtype).expand(len(x), 1, -1)
        x = torch.cat([start, x[:, :-1]], 1)
        for block in self.blocks:
            x = block(x, condition, "before")
        return x


@NETWORKS.register("hollow")
class HollowTransformer(Transformer):
    """`depth` blocks in each of the two streams, and `depth // 2` layers (at least one) that read them."""

    hollow = True

    def __init__(self, config: TransformerConfig) -> None:
        if config.conditioning == "evidence" and config.time:
            config = replace(config, time=False)  # the level of a row would tell of each position's own evidence
        super().__init__(config)
        self.ends = nn.Parameter((3 * config.width) ** -0.5 * torch.randn(2, config.width))
        self.before, self.after = self._blocks(config.depth), self._blocks(config.depth)
        self.merge = nn.Linear(2 * config.width, config.width)
        self.norm_memory = nn.LayerNorm(config.width, bias=False)
        self.readers = self._blocks(max(1, config.depth // 2))

    def encode(self, x: Hidden, condition: Condition) -> Hidden:
        length = x.shape[1]
        first, last = self.ends.to(x.dtype)[:, None, None].expand(2, len(x), 1, -1)
        before, after = torch.cat([first, x[:, :-1]], 1), torch.cat([x[:, 1:], last], 1)
        past = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        for forward_block, backward_block in zip(self.before, self.after, strict=True):
            before, after = forward_block(before, condition, "before"), backward_block(after, condition, past.T)
        x = self.merge(torch.cat([before, after], -1))
        memory, seen = self.norm_memory(torch.cat([before, after], 1)), torch.cat([past, past.T], 1)
        for reader in self.readers:
            x = reader(x, condition, seen, memory)
        return x
