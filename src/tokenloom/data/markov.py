"""Sequences of a random Markov chain: the exact posterior, likelihood and entropy are known (`MarkovOracle`)."""

import hashlib

import torch
from torch import Tensor

from tokenloom.data.base import Dataset
from tokenloom.markov_oracle import MarkovOracle
from tokenloom.processes import Uniform
from tokenloom.types import Tokens


def markov_chain(vocab_size: int, seed: int, sharpness: float = 2.0) -> tuple[Tensor, Tensor]:
    """An initial law and a transition matrix, float64; a larger `sharpness` makes the chain more predictable."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(vocab_size + 1, vocab_size, generator=generator, dtype=torch.float64)
    laws = torch.softmax(sharpness * logits, -1)
    return laws[0], laws[1:]


def load_markov(
    vocab_size: int = 16, length: int = 32, rows: int = 50_000, valid_rows: int = 2_000, seed: int = 0
) -> Dataset:
    """Rows drawn from one chain; training and validation are independent draws."""
    for name, value, least in (("vocab_size", vocab_size, 2), ("length", length, 1), ("rows", rows, 1)):
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")
    oracle = MarkovOracle(*markov_chain(vocab_size, seed), length, Uniform(vocab_size))
    train, valid = (
        oracle.sample(count, torch.Generator().manual_seed(seed + offset)).to(torch.int16)
        for count, offset in ((rows, 1), (valid_rows, 2))
    )
    fingerprint = hashlib.sha256(repr((vocab_size, length, rows, valid_rows, seed)).encode()).hexdigest()
    return Dataset(
        f"markov chain of {vocab_size} tokens",
        vocab_size,
        train,
        valid,
        fingerprint,
        _numbers,
        entropy=oracle.entropy() / length,
    )


def _numbers(tokens: Tokens) -> list[str]:
    return [" ".join(str(token) for token in row) for row in tokens.tolist()]
