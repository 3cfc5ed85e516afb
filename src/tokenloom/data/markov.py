"""Sequences of a random Markov chain: the exact posterior, likelihood and entropy are known (`MarkovOracle`)."""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenloom.cells import Uniform
from tokenloom.data.base import SOURCES, Dataset, Outline, Source
from tokenloom.data.decoder import numbers
from tokenloom.drawing.randomness import starting_at
from tokenloom.oracles import MarkovOracle
from tokenloom.support.checks import check_least


def markov_chain(vocab_size: int, seed: int, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    """Draw a random Markov chain: the law of its first token, and the transitions."""
    generator = starting_at(seed)
    logits = torch.randn(vocab_size + 1, vocab_size, generator=generator, dtype=torch.float64)
    laws = torch.softmax(sharpness * logits, -1)
    return laws[0], laws[1:]


@SOURCES.register("markov")
@dataclass(frozen=True)
class MarkovSource(Source):
    """Rows drawn from one chain; training and validation are independent draws."""

    kind: str = "markov"
    vocab_size: int = 16
    """States of the chain."""
    length: int = 32
    """Tokens per sequence."""
    rows: int = 50_000
    """Rows to generate."""
    valid_rows: int = 2_000
    """Rows to generate for validation."""
    seed: int = 0
    """Seed of the chain and of the rows."""

    def __post_init__(self) -> None:
        check_least(self, vocab_size=2, length=1, rows=1, valid_rows=1)

    def oracle(self) -> MarkovOracle:
        return MarkovOracle(*markov_chain(self.vocab_size, self.seed), self.length, Uniform(self.vocab_size))

    def outline(self) -> Outline:
        return Outline(f"markov chain of {self.vocab_size} tokens", self.vocab_size, self.length)

    def load(self) -> Dataset:
        oracle = self.oracle()
        draws = enumerate((self.rows, self.valid_rows), self.seed + 1)  # each with a seed of its own
        train, valid = (oracle.sample(rows, starting_at(seed)).to(torch.int16) for seed, rows in draws)
        key = (self.vocab_size, self.length, self.rows, self.valid_rows, self.seed)
        fingerprint, entropy = hashlib.sha256(repr(key).encode()).hexdigest(), oracle.entropy() / self.length
        name, decode = self.outline().name, numbers(self.vocab_size)
        return Dataset(name, self.vocab_size, train, valid, fingerprint, decode, entropy)
