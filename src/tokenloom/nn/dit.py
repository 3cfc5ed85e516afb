"""The diffusion transformer of the field (DDiT): rotary positions, adaLN on the time, a head that starts at zero."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenloom.nn.attention import Hidden
from tokenloom.nn.block import Block, Condition, Modulation, modulate
from tokenloom.nn.conditioning import TimeEmbedding, TokenEmbedding
from tokenloom.types import Flags, PerRow, Tokens


@dataclass(frozen=True)
class TransformerConfig:
    """Size and conditions of a transformer; the defaults are the paper's, about 170M parameters at K = 50,257."""

    vocab_size: int
    """K, the real tokens; one logit each."""
    num_states: int
    """How many ids the input may hold: K, or K + 1 with a mask outside the vocabulary."""
    length: int
    """The longest sequence."""
    width: int = 768
    depth: int = 12
    heads: int = 12
    condition: int = 128
    """Size of the time embedding."""
    dropout: float = 0.1
    time: bool = True
    """Condition on the time; a masked network may do without."""
    absorbing: bool = False
    """Condition on the absorbing sequence U (AUDM)."""
    fixed: bool = False
    """Mark given positions."""
    rotary: bool = True
    """Rotary positions; a network with relations may do without positions."""
    loops: int = 1
    """How many times the blocks are applied, with the same weights (DiT and GridNetwork)."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "num_states", "length", "width", "depth", "heads", "condition", "loops"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.vocab_size <= self.num_states <= self.vocab_size + 1:
            raise ValueError(
                f"num_states must be {self.vocab_size} or, with a mask, {self.vocab_size + 1}, got {self.num_states}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")


@runtime_checkable
class Head(Protocol):
    """A linear map from the features of a position to its logits."""

    @property
    def weight(self) -> Tensor:
        """One row a logit."""

    @property
    def bias(self) -> Tensor:
        """One number a logit."""

    def __call__(self, features: Tensor) -> Tensor:
        """The logits."""


class Transformer(nn.Module):
    """What the networks here share: embedding, head and the split into `features` and `head`."""

    hollow = False
    """True where the output at a position provably does not depend on the input at it."""
    causal = False
    """True where it depends on the inputs before it only."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        condition = config.condition if config.time else None
        self.embedding: nn.Module = TokenEmbedding(config.num_states, config.width, config.absorbing, config.fixed)
        self.time = TimeEmbedding(config.condition) if config.time else None
        self.norm = nn.LayerNorm(config.width, bias=False)
        self.modulation = Modulation(condition, config.width, 2)
        head = nn.Linear(config.width, config.vocab_size)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        self.head: Head = head

    def features(
        self, tokens: Tokens, time: PerRow, absorbing: Tokens | None = None, fixed: Flags | None = None
    ) -> Float[Tensor, "batch length width"]:
        """Everything but the head; `head(features)` gives logits, at any subset of positions."""
        if tokens.shape[1] > self.config.length:
            raise ValueError(f"this network reads at most {self.config.length} positions, got {tokens.shape[1]}")
        return self._read(tokens, time, absorbing, fixed)

    def forward(
        self, tokens: Tokens, time: PerRow, absorbing: Tokens | None = None, fixed: Flags | None = None
    ) -> Float[Tensor, "batch length vocab"]:
        logits: Tensor = self.head(self.features(tokens, time, absorbing, fixed))
        return logits

    def _read(self, tokens: Tokens, time: PerRow, absorbing: Tokens | None, fixed: Flags | None) -> Tensor:
        """Embed, encode and normalise, with a vector for whatever the embedding has one for."""
        condition = None if self.time is None else self.time(time)
        x = self.encode(self.embedding(tokens, absorbing, fixed), condition)
        shift, scale = self.modulation(condition)
        return modulate(self.norm(x), shift, scale)

    def encode(self, x: Hidden, condition: Condition) -> Hidden:
        """The body of the network."""
        raise TypeError(f"{type(self).__name__} has no body; use DiT, CausalTransformer or HollowTransformer")

    def _blocks(self, depth: int, relations: Bool[Tensor, "kinds length length"] | None = None) -> nn.ModuleList:
        config = self.config
        condition = config.condition if config.time else None
        return nn.ModuleList(
            Block(config.width, config.heads, condition, config.dropout, config.rotary, relations) for _ in range(depth)
        )


class DiT(Transformer):
    """Every position sees every position; `relations` are flags such as those of `grid_relations`."""

    def __init__(self, config: TransformerConfig, relations: Bool[Tensor, "kinds length length"] | None = None) -> None:
        super().__init__(config)
        if relations is not None and relations.shape[1:] != (config.length, config.length):
            raise ValueError(
                f"relations must have shape [kinds, {config.length}, {config.length}] for this length, "
                f"got {list(relations.shape)}"
            )
        self.blocks = self._blocks(config.depth, relations)

    def encode(self, x: Hidden, condition: Condition) -> Hidden:
        for _ in range(self.config.loops):
            for block in self.blocks:
                x = block(x, condition)
        return x


class CausalTransformer(Transformer):
    """The output at a position sees the tokens before it: an autoregressive baseline."""

    causal = True

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.start = nn.Parameter(0.02 * torch.randn(config.width))
        self.blocks = self._blocks(config.depth)

    def encode(self, x: Hidden, condition: Condition) -> Hidden:
        start = self.start.to(x.dtype).expand(len(x), 1, -1)
        x = torch.cat([start, x[:, :-1]], 1)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        for block in self.blocks:
            x = block(x, condition, mask)
        return x
