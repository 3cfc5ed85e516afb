"""What the transformers here share: their sizes, the embedding, the head, and the split into `features` and `head`."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from tokenloom.nn.attention import Hidden
from tokenloom.nn.base import NETWORKS, Network, NetworkOptions, Task
from tokenloom.nn.block import Block, Condition, Modulation, modulate
from tokenloom.nn.conditioning import TimeEmbedding, TokenEmbedding
from tokenloom.support.checks import check_least
from tokenloom.support.typed import check_fields, check_type
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
    given: bool = False
    """Mark given positions."""
    rotary: bool = True
    """Rotary positions; a network with relations may do without positions."""
    loops: int = 1
    """How many times the blocks are applied, with the same weights (DiT and GridNetwork)."""
    clock: Literal["time", "sigma"] = "time"
    """What the time embedding reads: t, or sigma = -log alpha_t, as checkpoints of other libraries do."""
    time_scale: float = 1000.0
    """What it is multiplied with."""
    time_least: float | None = None
    """The smallest and the largest value seen in training; what lies beyond is moved there."""
    time_most: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_least(self, vocab_size=1, num_states=1, length=1, width=1, depth=1, heads=1, condition=1, loops=1)
        if not self.vocab_size <= self.num_states <= self.vocab_size + 1:
            raise ValueError(
                f"num_states must be {self.vocab_size} or, with a mask, {self.vocab_size + 1}, got {self.num_states}"
            )
        if self.clock not in ("time", "sigma"):
            raise ValueError(f"clock must be time or sigma, got {self.clock!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")


@dataclass(frozen=True)
class TransformerOptions(NetworkOptions):
    """How large a transformer is."""

    kind: str = "dit"
    width: int = 128
    depth: int = 4
    heads: int = 4
    loops: int = 1
    """How many times the blocks are applied, with the same weights (dit and grid)."""
    condition: int = 128
    """Size of the time embedding."""
    dropout: float = 0.0
    time: bool = True
    """Condition on the time."""
    relations: bool = False
    """Learn an attention bias for the rows, columns and boxes of a grid, and do without positions."""

    def config(self, task: Task, *, rotary: bool) -> TransformerConfig:
        """The whole config, for a task."""
        kept = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("kind", "relations")}
        settled: dict[str, Any] = {"absorbing": task.absorbing, "given": task.given, "rotary": rotary}
        return TransformerConfig(task.num_outputs, task.num_states, task.length, **kept, **settled)

    def build(self, task: Task) -> nn.Module:
        if self.relations and task.relations is None:
            raise ValueError(f"--network.relations needs a grid, and {task.data} has no relations")
        network, config = NETWORKS[self.kind], self.config(task, rotary=not self.relations)
        used = self.relations and getattr(network, "takes_relations", False)
        return network(config, **({"relations": task.relations} if used else {}))


class Transformer(Network):
    """What the networks here share: embedding, head and the split into `features` and `head`."""

    Config = TransformerConfig
    Options = TransformerOptions

    hollow = False
    """True where the output at a position provably does not depend on the input at it."""
    causal = False
    """True where it depends on the inputs before it only."""
    takes_relations = False
    """Whether the constructor takes `relations`, flags of related positions."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        check_type("config", config, TransformerConfig)
        super().__init__(config)
        self.length, self.num_states, self.num_outputs = config.length, config.num_states, config.vocab_size
        self.timeless, self.marks_given, self.reads_absorbing = not config.time, config.given, config.absorbing
        condition = config.condition if config.time else None
        self.embedding: nn.Module = TokenEmbedding(config.num_states, config.width, config.absorbing, config.given)
        self.clock, limits = config.clock, (config.time_least, config.time_most)
        self.time = TimeEmbedding(config.condition, scale=config.time_scale, limits=limits) if config.time else None
        self.norm = nn.LayerNorm(config.width, bias=False)
        self.modulation = Modulation(condition, config.width, 2)
        head = nn.Linear(config.width, config.vocab_size)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        self.head: nn.Module = head

    def features(
        self, tokens: Tokens, time: PerRow, absorbing: Tokens | None = None, given: Flags | None = None
    ) -> Float[Tensor, "batch length width"]:
        """Everything but the head; `head(features)` gives logits, at any subset of positions."""
        if tokens.shape[1] > self.config.length:
            raise ValueError(f"this network reads at most {self.config.length} positions, got {tokens.shape[1]}")
        return self._read(tokens, time, absorbing, given)

    def forward(
        self,
        tokens: Tokens,
        time: PerRow,
        absorbing: Tokens | None = None,
        given: Flags | None = None,
        features_only: bool = False,
    ) -> Float[Tensor, "batch length out"]:
        features = self.features(tokens, time, absorbing, given)
        logits: Tensor = features if features_only else self.head(features)
        return logits

    def _read(self, tokens: Tokens, time: PerRow, absorbing: Tokens | None, given: Flags | None) -> Tensor:
        """Embed, encode and normalise, with a vector for whatever the embedding has one for."""
        condition = None if self.time is None else self.time(time)
        x = self.encode(self.embedding(tokens, absorbing, given), condition)
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
