r"""Sources of random numbers: one generator for a batch, or one per row.

With one generator per row, what a row draws depends on its own seed alone, so that row i of a batch is the row that
would be drawn alone.  Everything here draws by inversion and asks for a fixed count of uniform numbers per position,
which is what makes that possible.
"""

import hashlib
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from tokenloom.support.typed import checked
from tokenloom.types import PerPosition, Tokens


class RowGenerators:
    """One generator per row of a batch, from one seed per row; numbers are drawn on `device`."""

    @checked
    def __init__(self, seeds: Sequence[int], device: torch.device | str = "cpu") -> None:
        self.device = device_named(device)
        self.rows = [starting_at(seed, self.device) for seed in seeds]

    @classmethod
    @checked
    def spawn(cls, seed: int, batch: int, device: torch.device | str = "cpu") -> "RowGenerators":
        """Derive unrelated seeds for rows 0..batch-1 from one; a longer batch starts with the same rows."""
        return cls(row_seeds(batch, seed, "row"), device)

    def select(self, index: Sequence[int]) -> "RowGenerators":
        """Share the generators of some rows."""
        chosen = RowGenerators([], self.device)
        chosen.rows = [self.rows[row] for row in index]
        return chosen

    def uniform(self, shape: tuple[int, ...]) -> Float[Tensor, "*shape"]:
        """Draw one row of numbers from each generator."""
        rows = shape[0] if shape else "no rows"
        if rows != len(self.rows):
            raise ValueError(f"there are generators for {len(self.rows)} rows, but the batch has {rows}")
        numbers = torch.empty(shape, device=self.device, dtype=torch.float64)
        for row, generator in zip(numbers.unbind(), self.rows, strict=True):
            row.uniform_(generator=generator)
        return numbers


Randomness = Generator | RowGenerators


def starting_at(seed: int, device: torch.device | str = "cpu") -> Generator:
    """Return a generator with a seed that somebody chose."""
    generator = Generator(device=device)
    try:
        return generator.manual_seed(seed)
    except (RuntimeError, ValueError) as error:  # which of them depends on the version of PyTorch
        raise ValueError(f"seed must fit into 64 bits, got a number of {len(str(abs(seed)))} digits") from error


def device_named(device: torch.device | str) -> torch.device:
    """Return the device of this name."""
    try:
        return torch.device(device)
    except RuntimeError:
        raise ValueError(f"device must be one of PyTorch's, such as cpu or cuda:0, got {device!r}") from None


def uniform(shape: tuple[int, ...], generator: Randomness | None, device: torch.device) -> Float[Tensor, "*shape"]:
    """Draw float64 numbers in [0, 1): 53 random bits, so rare events keep their frequency."""
    if isinstance(generator, RowGenerators):
        return generator.uniform(shape)
    return torch.rand(shape, generator=generator, device=device, dtype=torch.float64)


def uniform_pair(tokens: Tokens, generator: Randomness | None) -> tuple[PerPosition, PerPosition]:
    """Draw two uniform numbers per position: one for the branch, one for the token."""
    shape, device = tuple(tokens.shape), tokens.device
    return uniform(shape, generator, device), uniform(shape, generator, device)


def select(generator: Randomness | None, rows: Int[Tensor, "rows"]) -> Randomness | None:
    """Take the randomness of some rows of a batch: their generators, where each row has its own."""
    return generator.select(rows.tolist()) if isinstance(generator, RowGenerators) else generator


def row_seeds(rows: int, *key: int | str) -> tuple[int, ...]:
    """Derive one seed per row, from the key and the row's number."""
    return tuple(derive_seed(*key, row) for row in range(rows))


def derive_seed(*key: int | str) -> int:
    """Derive a seed that depends on nothing but its key."""
    return int.from_bytes(hashlib.sha256(repr(key).encode()).digest()[:8], "big") >> 1  # a seed of PyTorch has 63 bits


def seeded(*key: int | str, device: torch.device | str = "cpu") -> Generator:
    """Return a generator that depends on nothing but its key."""
    return Generator(device=device).manual_seed(derive_seed(*key))
