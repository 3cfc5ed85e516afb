"""The frame of every transformer here: sizes, embedding, head, and the split into `features` and `head`."""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from tokenloom.nn.base import NETWORKS, Hidden, Network, NetworkOptions, Relations, Task
from tokenloom.nn.block import Block, Condition, Modulation, modulate
from tokenloom.nn.conditioning import EvidenceEmbedding, Fusion, LevelEmbedding, TimeEmbedding, TokenEmbedding
from tokenloom.support.checks import check_least
from tokenloom.support.typed import check_fields, check_type
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

MOST_LOOPS = 1000
"""A file may ask for any number of loops; with more a single call would not end."""


@dataclass(frozen=True)
class TransformerConfig:
    """Size and conditions of a transformer; the defaults are the paper's, about 170M parameters at K = 50,257."""

    vocab_size: int
    """K, the real tokens; one logit each."""
    num_states: int
    """The number of ids in the input: K, or K + 1 with a mask outside the vocabulary."""
    length: int
    """The longest sequence."""
    width: int = 768
    """Size of the vector of each position."""
    depth: int = 12
    """The number of blocks."""
    heads: int = 12
    """Attention heads per block; `width` is an even multiple of them."""
    condition: int = 128
    """Size of the time embedding."""
    dropout: float = 0.1
    """The share of activations dropped in training, in [0, 1)."""
    time: bool = True
    """Condition on the time, or on the level of the row; a masked network may do without."""
    conditioning: Literal["time", "evidence"] = "time"
    """The input beside the tokens: time, U and givens, or the evidence of each token, which suits any process."""
    absorbing: bool = False
    """Condition on the absorbing sequence U (AUDM)."""
    fusion: Fusion = "shared_mlp"
    """The fusion of U with the tokens, as `nn/conditioning.py` defines them."""
    given: bool = False
    """Mark given positions."""
    rotary: bool = True
    """Rotary positions; a network with relations may do without positions."""
    loops: int = 1
    """Passes through the blocks, with the same weights (DiT and GridNetwork)."""
    fewest_loops: int | None = None
    """In training a number of loops from this one on is drawn for every batch, so that each of them learns to answer
    and further ones refine; None for always `loops`."""
    answer_every: int | None = None
    """In training the network answers after every so many loops, and gradients stop there (`stages`); None for one
    answer at the end."""
    clock: Literal["time", "sigma"] = "time"
    """The input of the time embedding: t, or sigma = -log alpha_t, as in checkpoints of other libraries."""
    time_scale: float = 1000.0
    """The factor on that input."""
    time_least: float | None = None
    """The smallest input seen in training; smaller ones are moved there."""
    time_most: float | None = None
    """The largest input seen in training; larger ones are moved there."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_least(self, vocab_size=1, num_states=1, length=1, width=1, depth=1, heads=1, condition=1, loops=1)
        K = self.vocab_size
        if self.num_states not in (K, K + 1):
            raise ValueError(f"num_states must be {K} or, with a mask, {K + 1}, got {self.num_states}")
        if self.loops > MOST_LOOPS:
            raise ValueError(f"loops must be at most {MOST_LOOPS}, got {self.loops}; the blocks are repeated so often")
        if self.fewest_loops is not None and not 1 <= self.fewest_loops <= self.loops:
            raise ValueError(f"fewest_loops must be in 1..{self.loops}, the loops, got {self.fewest_loops}")
        if self.answer_every is not None and not 1 <= self.answer_every <= self.loops:
            raise ValueError(f"answer_every must be in 1..{self.loops}, the loops, got {self.answer_every}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")


@dataclass(frozen=True)
class TransformerOptions(NetworkOptions):
    """The size and conditions of a transformer."""

    best_fusion: ClassVar[Fusion] = "gated"
    """The fusion by default."""
    kind: str = "dit"
    width: int = 128
    """Size of the vector of each position."""
    depth: int = 4
    """The number of blocks."""
    heads: int = 4
    """Attention heads per block; the width is an even multiple of them."""
    loops: int = 1
    """Passes through the blocks, with the same weights (dit and grid)."""
    fewest_loops: int | None = None
    """The fewest loops that training draws, a number for every batch; by default always `loops`."""
    answer_every: int | None = None
    """Loops between two answers that training scores, with gradients that stop at each; by default one answer at the
    end."""
    condition: int = 128
    """Size of the time embedding."""
    dropout: float = 0.0
    """The share of activations dropped in training."""
    time: bool | None = None
    """Condition on the time; by default not where lost tokens show as such (masks, transition times, causal networks),
    whose best prediction is the same at every time."""
    conditioning: Literal["time", "evidence"] = "time"
    """The input beside the tokens: the time, or the evidence of each token (--method any)."""
    fusion: Fusion | None = None
    """The fusion of U with the tokens (--method audm): the same table and an MLP, a table for U alone and one linear
    map (the default of the paper's code), or gated, by default, the MLP beside which a clean token passes unchanged."""
    relations: bool = False
    """Learn an attention bias for the rows, columns and boxes of a grid, and do without positions."""

    def config(self, task: Task, *, rotary: bool) -> TransformerConfig:
        """Complete the config for a task."""
        kept = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("kind", "relations")}
        by_evidence = self.conditioning == "evidence"
        shown: dict[str, Any] = {} if by_evidence else {"absorbing": task.absorbing, "given": task.given}
        if self.fusion is not None and not shown.get("absorbing"):
            raise ValueError(f"--network.fusion {self.fusion} is for networks that read U; train with --method audm")
        kept["time"] = self.time is not False
        kept["fusion"] = self.fusion or (self.best_fusion if shown.get("absorbing") else TransformerConfig.fusion)
        states = task.num_outputs if by_evidence else task.num_states
        return TransformerConfig(task.num_outputs, states, task.length, **kept, **shown, rotary=rotary)

    def build(self, task: Task) -> nn.Module:
        if self.relations and task.relations is None:
            raise ValueError(f"--network.relations needs a grid, and {task.data} has no relations")
        network, config = NETWORKS[self.kind], self.config(task, rotary=not self.relations)
        used = self.relations and getattr(network, "takes_relations", False)
        return network(config, **({"relations": task.relations} if used else {}))


class Transformer(Network):
    """A network of blocks, which a subclass arranges in `encode`."""

    Config = TransformerConfig
    Options = TransformerOptions

    hollow = False
    """True if the output at a position provably does not depend on the input at it."""
    causal = False
    """True if it depends on the inputs before it only."""
    takes_relations = False
    """True if the constructor takes `relations`, flags of related positions."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        check_type("config", config, TransformerConfig)
        super().__init__(config)
        self.length, self.num_states, self.num_outputs = config.length, config.num_states, config.vocab_size
        self.timeless, self.marks_given, self.reads_absorbing = not config.time, config.given, config.absorbing
        self.reads_evidence, self.clock = config.conditioning == "evidence", config.clock
        self.answer_every = config.answer_every
        if config.answer_every is not None:
            self._check_loops()
        if self.reads_evidence:
            self.embedding: nn.Module = EvidenceEmbedding(config.vocab_size, config.width)
            self.time: TimeEmbedding | LevelEmbedding | None = LevelEmbedding(config.condition) if config.time else None
        else:
            self.embedding = TokenEmbedding(
                config.num_states, config.width, config.fusion if config.absorbing else None, config.given
            )
            limits = config.time_least, config.time_most
            self.time = TimeEmbedding(config.condition, config.time_scale, limits) if config.time else None
        self.norm = nn.LayerNorm(config.width, bias=False)
        self.modulation = Modulation(config.condition if config.time else None, config.width, 2)
        head = nn.Linear(config.width, config.vocab_size)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        self.head: nn.Module = head

    def features(
        self,
        tokens: Tokens,
        time: PerRow,
        absorbing: Tokens | None = None,
        given: Flags | None = None,
        evidence: PerPosition | None = None,
    ) -> Hidden:
        """Compute everything but the head; `head(features)` gives logits, at any subset of positions."""
        x, condition = self._embedded(tokens, time, absorbing, given, evidence)
        return self._read(self.encode(x, condition), condition, tokens)

    def stages(
        self,
        tokens: Tokens,
        time: PerRow,
        absorbing: Tokens | None = None,
        given: Flags | None = None,
        evidence: PerPosition | None = None,
    ) -> Iterator[Hidden]:
        """Yield the features after every `answer_every` loops, and after the last.

        The state of the positions goes on without its gradient, as in recursive models: each answer trains the loops
        since the one before.
        """
        x, condition = self._embedded(tokens, time, absorbing, given, evidence)
        rounds, every = self.rounds(), self.answer_every
        for number in rounds:
            x = self.loop(x, condition)
            if number + 1 == len(rounds) or (every is not None and (number + 1) % every == 0):
                yield self._read(x, condition, tokens)
                x = x.detach()

    def _embedded(
        self,
        tokens: Tokens,
        time: PerRow,
        absorbing: Tokens | None,
        given: Flags | None,
        evidence: PerPosition | None,
    ) -> tuple[Tensor, Condition]:
        self._check_length(tokens.shape[1])
        if not self.reads_evidence:
            if self.reads_absorbing and absorbing is None:
                raise ValueError("this network is conditioned on the absorbing sequence U; pass absorbing=")
            x, level = self.embedding(tokens, absorbing, given), time
        elif evidence is not None:
            x, level = self.embedding(tokens, evidence), evidence
        else:
            raise ValueError("this network is conditioned on the evidence of each token; pass evidence=")
        return x, None if self.time is None else self.time(level)

    def _read(self, x: Tensor, condition: Condition, tokens: Tokens) -> Tensor:
        features = modulate(self.norm(x), *self.modulation(condition))
        vectors = features.shape[1] // max(tokens.shape[1], 1)  # a grid network has one per candidate, laid end to end
        return features.reshape(*tokens.shape, vectors * features.shape[2])

    def _check_length(self, length: int) -> None:
        """Raise unless the network reads sequences of this length."""
        if length > self.config.length:
            raise ValueError(f"this network reads at most {self.config.length} positions, got {length}")

    def encode(self, x: Hidden, condition: Condition) -> Hidden:
        """Apply the body of the network: by default its loops."""
        for _ in self.rounds():
            x = self.loop(x, condition)
        return x

    def loop(self, x: Hidden, condition: Condition) -> Hidden:
        """Pass through the blocks once, where they are repeated."""
        raise TypeError(f"{type(self).__name__} has no loops; use DiT, CausalTransformer or HollowTransformer")

    def with_loops(self, loops: int) -> "Transformer":
        """Return a network of the same modules with another number of loops."""
        self._check_loops()
        other = copy(self)
        other.config = replace(self.config, loops=loops, fewest_loops=None, answer_every=None)
        other.answer_every = None
        return other

    def _check_loops(self) -> None:
        if type(self).loop is Transformer.loop:
            raise ValueError(f"only dit and grid networks repeat their blocks, got {self.name}; leave loops out")

    def rounds(self) -> range:
        """Return the passes through the blocks: `loops`, or in training a random number from `fewest_loops` on."""
        most, fewest = self.config.loops, self.config.fewest_loops
        if fewest is None or not self.training:
            return range(most)
        return range(int(torch.randint(fewest, most + 1, ())))

    def _blocks(self, depth: int, relations: Relations | None = None) -> nn.ModuleList:
        config = self.config
        sizes = config.width, config.heads, config.condition if config.time else None
        return nn.ModuleList(Block(*sizes, config.dropout, config.rotary, relations) for _ in range(depth))
