r"""Gillespie's algorithm: the reverse chain jump by jump, in continuous time, exact for the posteriors it is given.

The rates change with t, so jumps are proposed at a rate that bounds theirs and then thinned.  A position whose token
may be noise is renewed at most at the rate (log h)' of a Markov chain, or (log m)' of a one-way one, jumps to its own
token included (`couplings/base.py`); both have closed integrals:

    Markov, still noise   logit(alpha_s) - logit(alpha_t)           GIDD   2 log tan at a mask, log tan at a token
    one-way chains        log(1 - alpha_t) - log(1 - alpha_s)              (MDM, AUDM, max coupling)

so the next proposal of a row is found by inverting one exponential number over the sum of its clocks' paces, with no
error in the step.  A proposal picks a position by its pace, asks for the prediction there alone, and jumps with
probability rate / rate of the clock that proposed.  The integrals diverge at t = 0, and the first at alpha = 0: from
`floor` down (and from a level below 1e-6 up to it) ancestral steps of the driver's grid take over.  Above, the grid
only says where to stop and look; it does not change the law.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tokenloom.couplings.base import Clocked
from tokenloom.couplings.steps import NOISE, PREDICTION, Mixture, Rates, branches, movable, rate_bound, reverse_rates
from tokenloom.drawing.randomness import Randomness, select, uniform
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.support.typed import OpenUnitInterval
from tokenloom.types import PerRow

SMALLEST_LEVEL = 1e-6
"""The level below which ancestral steps stand in for jumps."""


@PREDICTORS.register("gillespie")
@dataclass(frozen=True)
class Gillespie(Predictor):
    """One jump at a time: about 14 evaluations per position for UDM, one for MDM, whatever the number of steps."""

    floor: OpenUnitInterval = 1e-3
    """The time below which the driver's ancestral steps end the chain."""

    needs = "a process whose jump rates have a known integral"

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.has_jump_rates and isinstance(process.path, Clocked)

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        first = process.time_at(torch.full_like(noisy.t, SMALLEST_LEVEL)).clamp(max=1)
        noisy = _ancestral(evaluate, noisy, s.maximum(first), generator)
        stop = s.clamp(min=self.floor)
        active = noisy.t > stop
        while bool(active.any()):
            rows = active.nonzero().squeeze(1)
            noisy = self._advance(evaluate, noisy, stop, rows, select(generator, rows))
            active = noisy.t > stop
        return _ancestral(evaluate, noisy, s, generator)

    def _advance(
        self, evaluate: Evaluator, noisy: Noisy, stop: PerRow, rows: Tensor, generator: Randomness | None
    ) -> Noisy:
        """Take every active row to its next proposal, or to where it stops."""
        process, path = evaluate.process, evaluate.process.path
        numbers = uniform((len(rows), 4), generator, noisy.tokens.device)
        assert isinstance(path, Clocked)
        pace = torch.where(movable(process, noisy), path.pace(process, noisy), 0)[rows]
        total = pace.sum(1)
        waiting = -torch.log1p(-numbers[:, 0]) / total  # infinite where nothing jumps
        t = noisy.t.to(torch.float64, copy=True)
        later = path.later(process, t[rows], waiting).minimum(t[rows])
        t[rows] = torch.where(total > 0, later, 0).maximum(stop[rows])
        arrived = process.move_to(noisy, noisy.tokens, t)
        proposing = torch.zeros_like(noisy.tokens, dtype=torch.bool)
        cumulative = pace.cumsum(1)
        chosen = (cumulative > numbers[:, 1:2] * cumulative[:, -1:]).int().argmax(1)  # a position, by its pace
        proposing[rows, chosen] = t[rows] > stop[rows]
        local = evaluate(arrived).at(proposing, evaluate.step_kind)
        branch, token = (torch.zeros_like(noisy.tokens, dtype=torch.float64) for _ in range(2))
        branch[rows], token[rows] = numbers[:, 2:3], numbers[:, 3:4]
        law = _thinned(process, local.noisy, reverse_rates(process, local.noisy, local.posterior))
        return replace(arrived, tokens=local.draw_from(law, noisy.tokens, branch, token))


def _ancestral(evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
    """Take an ancestral step to s, if the rows (all at one time here) are above it."""
    return Ancestral().step(evaluate, noisy, s, generator) if bool((noisy.t > s).all()) else noisy


def _thinned(process: Process, noisy: Noisy, rates: Rates) -> Mixture:
    """Return the law of a proposal: each branch with probability rate / rate of the clock, else stay."""
    bound = rate_bound(process, noisy)
    share = rates.weights / torch.where(bound > 0, bound, 1).unsqueeze(-1)
    stay = (1 - share.sum(-1)).clamp(min=0)
    return Mixture(branches(stay, share[..., PREDICTION], share[..., NOISE]), rates.stay, rates.prediction, rates.noise)
