"""A mixture of puzzles to train on, by how much search they need and how few givens they have.

    kind 0   singles suffice          kind 2   at least `MANY` guesses
    kind 1   some guesses             kind 3   at most `FEW` givens, whatever they need

The guesses are those of a fixed exact search (`search.py`).  Every row of a kind occurs equally often, as its expected
number rounded up or down.
"""

import hashlib
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.data.token_cache import cached_rows, digest
from tokenloom.sudoku.mining import FEW, MANY
from tokenloom.sudoku.search import guesses
from tokenloom.sudoku.singles import candidates
from tokenloom.sudoku.solver import BLANK
from tokenloom.support.files import default_cache
from tokenloom.types import Tokens

KINDS = (
    "are solved by singles",
    f"need 1 to {MANY - 1} guesses",
    f"need {MANY} or more guesses",
    f"have {FEW} givens or fewer",
)
Shares = tuple[float, float, float, float]


def check_shares(shares: Shares) -> None:
    """Raise unless the shares are those of a whole."""
    if min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
        raise ValueError(f"mixture must be four shares of at least 0 with sum 1, got {' '.join(map(str, shares))}")


def kinds_of(puzzles: Tokens, side: int, cache: Path | None = None) -> Int[Tensor, "puzzles"]:
    """Return the kind of each puzzle; its guesses are kept in the cache under the puzzles' checksum."""
    content = hashlib.sha256(puzzles.to(torch.int8).contiguous().numpy().tobytes()).hexdigest()
    key = digest("guesses of sudoku puzzles", side, content)

    def build() -> list[np.ndarray]:
        return [guesses(candidates(part, side)).astype(np.int32)[:, None] for part in torch.split(puzzles, 4096)]

    rated = cached_rows(cache or default_cache(), key, 1, build)[:, 0].long()
    few = (puzzles != BLANK).sum(1) <= FEW
    return torch.where(few, 3, (rated > 0).long() + (rated >= MANY).long())


def mixed_rows(kinds: Int[Tensor, "puzzles"], shares: Shares, seed: int) -> Int[Tensor, "puzzles"]:
    """Draw as many rows as there are puzzles, with these shares of the kinds."""
    generator, count, parts = np.random.default_rng(seed), len(kinds), list[np.ndarray]()
    for kind, share in enumerate(shares):
        rows, wanted = (kinds == kind).nonzero()[:, 0].numpy(), round(share * count)
        if wanted and not len(rows):
            raise ValueError(f"none of the {count} training puzzles {KINDS[kind]}, but mixture asks for {share:g}")
        if wanted:
            every = generator.permutation(rows)
            parts.append(np.resize(every, wanted))
    return torch.from_numpy(np.sort(np.concatenate(parts)))
