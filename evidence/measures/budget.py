"""Equal evaluations, counted: the number of steps with which a sampler spends a budget.

A step in which no token moves is not evaluated, so what n steps cost depends on the network, the sampler and its
temperature.  A budget of n evaluations is therefore met by proportion: with e(n) evaluations counted for n steps,
n <- n budget / e(n), until the count is within 2% of the budget.  Where even `MOST` times as many steps do not spend
it (masked diffusion evaluates once per position at most), the sampler keeps what it does not need.
"""

from collections.abc import Callable
from dataclasses import replace

from tokenloom.drawing.randomness import RowGenerators, derive_seed
from tokenloom.models.protocol import Model
from tokenloom.samplers.options import SamplerOptions

Counted = Callable[[SamplerOptions], float]
"""The mean evaluations of a sequence that is drawn with these options."""
ROWS = 24
"""Sequences that evaluations are counted on."""
ROUNDS = 4
MOST = 4
"""Steps for each evaluation of the budget at most."""
NEAR = 0.02


def counted_on(model: Model) -> Counted:
    """Count on sequences that nothing is given of."""
    seeds = [derive_seed(0, "budget", row) for row in range(ROWS)]

    def counted(options: SamplerOptions) -> float:
        samples = options.sampler_value().run(model, ROWS, generator=RowGenerators(seeds))
        return float(samples.evaluations.double().mean())

    return counted


def spending(options: SamplerOptions, budget: int, counted: Counted) -> SamplerOptions:
    """Set the number of steps so that a sequence costs about `budget` evaluations, or as many as the sampler needs."""
    steps = budget
    for _ in range(ROUNDS):
        options = replace(options, steps=steps)
        used = counted(options)
        wanted = min(MOST * budget, max(1, round(steps * budget / used)))
        if abs(used - budget) <= NEAR * budget or wanted == steps:
            break
        steps = wanted
    return replace(options, steps=steps)
