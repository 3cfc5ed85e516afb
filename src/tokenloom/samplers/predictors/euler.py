r"""Euler steps of the reverse rates (`frozen_rates.py`): a position that is expected to jump m times jumps

    with probability f(m) = m, cut at 1,   m = (t - s) r,

which is right to first order in the step.
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
