"""What training needs of data: clean token sequences, split, and what is known about them; and where they come from."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Bool
from torch import Generator, Tensor

from tokenloom.data.decoder import Decoder
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.oracles.exact import ExactModel
from tokenloom.support.registry import Registry, build
from tokenloom.types import Flags, Tokens


@dataclass(frozen=True)
class Outline:
    """What is known of data before it is loaded or generated; None for what only the data can tell."""

    name: str
    vocab_size: int | None = None
    length: int | None = None
    relations: Bool[Tensor, "kinds length length"] | None = None
    given: bool = False
    """Whether some positions of a sequence are given."""


@dataclass(frozen=True)
class Dataset:
    """Two tables of token sequences, [rows, length] of any integer dtype (they may be memory-mapped)."""

    name: str
    """What messages and records call the data."""
    vocab_size: int
    """K; ids lie in 0..K-1."""
    train: Tensor
    """The rows to learn from."""
    valid: Tensor
    """The rows to validate on."""
    fingerprint: str
    """A checksum of both tables."""
    decode: Decoder
    """How sequences are written for people."""
    augment: Callable[[Tokens, Flags | None, Generator], tuple[Tokens, Flags | None]] | None = None
    """Redraws a batch (and the flags of its puzzles) under the symmetries of the data."""
    draw_given: Callable[[Tokens, Flags | None, Generator], Flags] | None = None
    """Draws the given positions of a completion task."""
    puzzles: tuple[Tensor, Tensor] | None = None
    """Flags that mark, for every row of the two tables, positions that determine the others."""
    relations: Bool[Tensor, "kinds length length"] | None = None
    """Which positions are related, for a grid's attention bias."""
    entropy: float | None = None
    """The exact entropy in nats per token, where it is known."""

    def __post_init__(self) -> None:
        for split, table in (("training", self.train), ("validation", self.valid)):
            if table.ndim != 2 or table.is_floating_point() or not len(table):
                raise ValueError(
                    f"the {split} split of {self.name} is empty or not a table of tokens: {list(table.shape)}"
                )
        if self.puzzles is not None and [flags.shape for flags in self.puzzles] != [self.train.shape, self.valid.shape]:
            raise ValueError(f"the puzzles of {self.name} must mark the positions of every row of its splits")
        if self.train.shape[1] != self.valid.shape[1]:
            raise ValueError(
                f"the splits of {self.name} differ in length: {self.train.shape[1]} and {self.valid.shape[1]}"
            )

    @property
    def length(self) -> int:
        """Tokens per sequence."""
        return self.train.shape[1]

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer of text."""
        return self.decode.tokenizer

    @property
    def outline(self) -> Outline:
        """What a network must know of it."""
        return Outline(self.name, self.vocab_size, self.length, self.relations, self.draw_given is not None)


@dataclass(frozen=True)
class Source(ABC):
    """A place that sequences come from, with its options; `kind` is its name in the registry."""

    kind: str
    """What kind of data this is: its name in the registry."""

    name: ClassVar[str]
    is_text: ClassVar[bool] = False
    """Whether its sequences are text in the tokens of a tokenizer."""
    is_image: ClassVar[bool] = False
    """Whether its sequences are square pictures of grey levels."""

    @abstractmethod
    def load(self) -> Dataset:
        """The data, split."""

    def outline(self) -> Outline:
        """What is known of the data without loading it, so that a network that does not suit it is refused first."""
        return Outline(self.kind, length=getattr(self, "length", None))

    def decoder(self, vocab_size: int, length: int) -> Decoder | None:
        """How its sequences are written for people, where that needs no data."""
        return None

    def oracle(self) -> ExactModel | None:
        """The exact law of the data, where it is known."""
        return None

    def at(self, path: str) -> "Source":
        """The same kind of data from another file or folder."""
        raise ValueError(f"{self.kind} data is generated and not read from a file, got {path}")

    def record(self) -> dict[str, Any]:
        """The source as JSON, for `source_of`."""
        return asdict(self)


SOURCES: Registry[Source] = Registry("kind of data", "tokenloom.sources", "tokenloom.data")


def source_of(record: Any) -> Source:
    """The inverse of `Source.record`."""
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise ValueError(f"a data source is stored as an object with its kind, got {str(record)[:80]}")
    return build(SOURCES[record["kind"]], record, f"the data source {record['kind']}")


def take(table: Tensor, index: Tensor) -> Tokens:
    """Some rows, as int64."""
    return table[index].to(torch.int64)
