r"""Euler steps of the reverse rates (`frozen_rates.py`).

x_s = x_t with probability 1 - (t - s) r, else a jump,   so f(m) = m, cut at 1
"""

from dataclasses import dataclass

from tokenloom.samplers.frozen_rates import FrozenRates
from tokenloom.samplers.kernel import PREDICTORS
from tokenloom.types import PerPosition


@PREDICTORS.register("euler")
@dataclass(frozen=True)
class Euler(FrozenRates):
    """First order in the step."""

    def probability(self, expected: PerPosition) -> PerPosition:
        return expected

    def most(self, expected: PerPosition) -> PerPosition:
        return expected
