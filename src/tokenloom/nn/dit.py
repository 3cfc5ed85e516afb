"""The diffusion transformer of the field (DDiT): rotary positions, adaLN on the time, a head that starts at zero."""

from torch import Tensor

from tokenloom.nn.attention import Hidden
from tokenloom.nn.base import NETWORKS, Relations
from tokenloom.nn.block import Condition
from tokenloom.nn.transformer import Transformer, TransformerConfig
from tokenloom.support.typed import check_type


@NETWORKS.register("dit")
class DiT(Transformer):
    """Every position sees every position.

    Args:
        config: Size and conditions.
        relations: Flags of related positions, such as those of `grid_relations`; each kind learns an attention bias.
    """

    takes_relations = True

    def __init__(self, config: TransformerConfig, relations: Relations | None = None) -> None:
        check_type("relations", relations, Tensor | None)
        super().__init__(config)
        if relations is not None and relations.shape[1:] != (config.length, config.length):
            raise ValueError(
                f"relations must have shape [kinds, {config.length}, {config.length}] for this length, "
                f"got {list(relations.shape)}"
            )
        self.blocks = self._blocks(config.depth, relations)

    def constants(self) -> dict[str, Tensor]:
        buffers = [buffer for name, buffer in self.blocks[0].named_buffers() if name.endswith("relations")]
        return {"relations": buffers[0]} if buffers else {}

    def encode(self, x: Hidden, condition: Condition) -> Hidden:
        for _ in self.rounds():
            for block in self.blocks:
                x = block(x, condition)
        return x
