"""Data for training and evaluation: clean token sequences in two splits, and the sources they come from."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool
from torch import Generator, Tensor

from tokenloom.data.decoder import Decoder, numbers, text
from tokenloom.models.model import DiffusionModel
from tokenloom.models.tokenizer import Tokenizer
from tokenloom.oracles.exact import ExactModel
from tokenloom.support.registry import Registry, build
from tokenloom.types import Flags, Tokens

Split = Literal["train", "valid"]


@dataclass(frozen=True)
class Outline:
    """Facts about data before it is loaded or generated; None for what only the data can tell."""

    name: str
    vocab_size: int | None = None
    length: int | None = None
    relations: Bool[Tensor, "kinds length length"] | None = None
    """Flags of related positions, for a grid's attention bias."""
    given: bool = False
    """True if some positions of a sequence are given."""


@dataclass(frozen=True)
class Dataset:
    """Two tables of token sequences, [rows, length] of any integer dtype (they may be memory-mapped).

    A subclass that gives other positions than a beginning or all but a span overrides `draw` and `outline`.
    """

    name: str
    vocab_size: int
    """K; ids lie in 0..K-1."""
    train: Tensor
    valid: Tensor
    fingerprint: str
    """A checksum of both tables."""
    decode: Decoder
    entropy: float | None = None
    """The exact entropy in nats per token, where it is known."""
    given: float = 0.0
    """The share of training rows with given positions (`given_positions`), so that a model learns to complete."""
    crop: bool = False
    """Shift every training row by 0..L-1 tokens, drawn anew at each visit; the rows are one stream, cut every L."""
    notes: tuple[str, ...] = ()
    """Sentences on how the data differs from its source."""

    def __post_init__(self) -> None:
        for split, table in (("training", self.train), ("validation", self.valid)):
            shape = list(table.shape)
            if table.ndim != 2 or table.is_floating_point() or not len(table):
                raise ValueError(f"the {split} split of {self.name} is empty or not a table of tokens: {shape}")
            if shape[1] != self.length:
                raise ValueError(f"the splits of {self.name} differ in length: {self.length} and {shape[1]}")

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
        """The facts that a network is built from."""
        return Outline(self.name, self.vocab_size, self.length, given=self.given > 0)

    def draw(self, split: Split, rows: Tensor, generator: Generator) -> tuple[Tokens, Flags | None]:
        """Return rows of a split as int64, and the positions that are given; a subclass may augment training rows."""
        some = split == "train" and self.given > 0  # held-out rows have none: a bound is that of whole sequences
        given = given_positions(len(rows), self.length, self.given, generator) if some else None
        if self.crop and split == "train":
            return cropped(self.train, rows, generator), given
        return take(getattr(self, split), rows), given

    def grades(self, samples: Tokens) -> dict[str, float]:
        """Return figures of samples that this kind of data alone knows, by their names."""
        return {}

    def characters(self, rows: Tokens) -> int | None:
        """Count the characters that the rows spell, ends of documents left out; None for data that is not text."""
        if self.tokenizer is None:
            return None
        end, decode = self.tokenizer.end_of_sequence, self.tokenizer.decode
        return sum(len(decode([token for token in row if token != end])) for row in rows.tolist())


@dataclass(frozen=True)
class Source(ABC):
    """A place that sequences come from, with its options."""

    kind: str
    """The kind of data: its name in the registry."""

    name: ClassVar[str]
    is_text: ClassVar[bool] = False
    """True if sequences are text in the tokens of a tokenizer."""

    @abstractmethod
    def load(self) -> Dataset:
        """Read or generate the data."""

    def outline(self) -> Outline:
        """Return what is known without loading the data, so that a network that does not suit it is refused first."""
        return Outline(self.kind, length=getattr(self, "length", None))

    def decoder(self, vocab_size: int, length: int) -> Decoder | None:
        """Return how sequences are written for people, where that needs no data."""
        return None

    def oracle(self) -> ExactModel | None:
        """Return the exact law of the data, where it is known."""
        return None

    def at(self, path: str) -> "Source":
        """Return the same kind of data from another file or folder."""
        if not hasattr(self, "path"):
            raise ValueError(f"{self.kind} data is generated and not read from a file, got {path}")
        return type(self)(**vars(self) | {"path": path})

    def record(self) -> dict[str, Any]:
        """Return the source as JSON, for `source_of`."""
        return asdict(self)


SOURCES: Registry[Source] = Registry("kind of data", "tokenloom.sources", "tokenloom.data")


def source_of(record: Any) -> Source:
    """Build a source from its record."""
    if not isinstance(record, dict) or not isinstance(record.get("kind"), str):
        raise ValueError(f"a data source is stored as an object with its kind, got {str(record)[:80]}")
    return build(SOURCES[record["kind"]], record, f"the data source {record['kind']}")


def trained_on(model: DiffusionModel) -> Source | None:
    """Return the data source that a model was trained on, if the model records it."""
    return None if model.about.source is None else source_of(model.about.source)


def decoder_of(model: DiffusionModel) -> Decoder:
    """Return how a model's sequences are written: as text, as its data source writes them, else as numbers."""
    size = model.process.vocab_size
    if model.tokenizer is not None:
        return text(model.tokenizer)
    source = trained_on(model)
    return (source and source.decoder(size, model.length or 0)) or numbers(size)


def given_positions(rows: int, length: int, share: float, generator: Generator) -> Flags:
    """Draw the flags of given positions, [rows, length], for a share of the rows: all but a blank interval.

    With i and j drawn uniformly in 0..L-1 it is [i, L), to be continued, in half of these rows, and [min(i, j),
    max(i, j)], to be filled in, in the others.  So every row has a position that is not given.
    """
    some, continued = torch.rand(2, rows, 1, generator=generator, dtype=torch.float64)
    i, j = torch.randint(length, (2, rows, 1), generator=generator)
    j = torch.where(continued < 0.5, length - 1, j)
    position = torch.arange(length)
    outside = (position < torch.minimum(i, j)) | (position > torch.maximum(i, j))
    return torch.logical_and(some < share, outside)


def cropped(table: Tensor, rows: Tensor, generator: Generator) -> Tokens:
    """Return rows of a table that is a stream cut into rows, each as much later as drawn, but within the stream."""
    (count, length), stream = table.shape, table.reshape(-1)
    first = rows * length + torch.randint(length, (len(rows),), generator=generator)
    return stream[first.clamp(max=(count - 1) * length)[:, None] + torch.arange(length)].to(torch.int64)


def take(table: Tensor, index: Tensor) -> Tokens:
    """Return rows of a table as int64."""
    return table[index].to(torch.int64)
