r"""Tau-leaping: each position jumps a Poisson number N of times at the frozen rates (`frozen_rates.py`).

    N ~ Poisson((t - s) r):   N = 0 stays, N = 1 jumps, N >= 2 is rejected and stays,   so f(m) = m exp(-m)

(tokens have no order in which jumps could add up; Campbell et al.).
"""

from dataclasses import dataclass

import torch

from tokenloom.samplers.frozen_rates import FrozenRates
from tokenloom.samplers.kernel import PREDICTORS
from tokenloom.types import PerPosition


@PREDICTORS.register("tau-leaping")
@dataclass(frozen=True)
class TauLeaping(FrozenRates):
    """Frozen rates, with the reject rule."""

    def probability(self, expected: PerPosition) -> PerPosition:
        return expected * torch.exp(-expected)

    def most(self, expected: PerPosition) -> PerPosition:
        return self.probability(expected.clamp(max=1))
