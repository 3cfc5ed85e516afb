r"""Gillespie's algorithm: the reverse chain jump by jump, in continuous time, exact for the posteriors it is given.

The rates change with t, so jumps are proposed at a rate that bounds theirs and then thinned.  With beta =
-alpha'/alpha and lambda = -alpha'/(1 - alpha) (`processes/rates.py`) a position of UDM jumps at most at rate lambda +
beta, and going down in time its integral is a closed form of the level:

    UDM              integral of lambda + beta  =  logit(alpha_s) - logit(alpha_t)
    one-way chains   integral of lambda         =  log(1 - alpha_t) - log(1 - alpha_s)     (MDM, AUDM, max coupling)

so the next proposal among n free positions is found by inverting one exponential number over n, with no error in the
step.  A proposal picks a free position, asks for the prediction there alone, and jumps with probability rate / bound.
Both integrals diverge at t = 0, and UDM's at alpha = 0: from `floor` down (and from a level below 1e-6 up to it) one
ancestral step takes over.  The grid of the driver only says where to stop and look; it does not change the law.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tokenloom.drawing.randomness import Randomness, select, uniform
from tokenloom.processes.base import Process
from tokenloom.processes.mixtures import NOISE, PREDICTION, Mixture, Rates, branches
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
from tokenloom.samplers.needs import JUMPS_WITH_INTEGRAL
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerRow

SMALLEST_LEVEL = 1e-6


@PREDICTORS.register("gillespie")
@dataclass(frozen=True)
class Gillespie(Predictor):
    """One jump at a time: about 14 evaluations per position for UDM, one for MDM, whatever the number of steps.

    Raises:
        ValueError: If `floor` is not in (0, 1).
    """

    floor: float = 1e-3
    """The time below which one ancestral step ends the chain."""

    serves = JUMPS_WITH_INTEGRAL

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.floor < 1:
            raise ValueError(f"floor must be in (0, 1), got {self.floor}")

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        first = process.time_at(torch.full_like(noisy.t, SMALLEST_LEVEL))
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
        """Every active row goes to its next proposal, or to where it stops."""
        process = evaluate.process
        numbers = uniform((len(rows), 4), generator, noisy.tokens.device)
        free = noisy.free
        count = free[rows].sum(1)
        alpha = process.alpha(noisy.t)
        alpha[rows] = process.level_after(alpha[rows], -torch.log1p(-numbers[:, 0]) / count)
        t = noisy.t.clone()
        t[rows] = torch.maximum(process.time_at(alpha[rows]).minimum(t[rows]), stop[rows])
        arrived = process.move_to(noisy, noisy.tokens, t)
        proposing = torch.zeros_like(free)
        proposing[rows, _nth(free[rows], (numbers[:, 1] * count).long())] = t[rows] > stop[rows]
        proposing &= process.rate_bound(arrived) > 0
        local = evaluate(arrived).at(proposing, evaluate.step_kind)
        branch, token = (torch.zeros_like(noisy.tokens, dtype=torch.float64) for _ in range(2))
        branch[rows], token[rows] = numbers[:, 2:3], numbers[:, 3:4]
        law = _thinned(process, local.noisy, process.reverse_rates(local.noisy, local.posterior))
        return replace(arrived, tokens=local.draw_from(law, noisy.tokens, branch, token))


def _ancestral(evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
    """An ancestral step to s, if the rows (all at one time here) are above it."""
    return Ancestral().step(evaluate, noisy, s, generator) if bool((noisy.t > s).all()) else noisy


def _thinned(process: Process, noisy: Noisy, rates: Rates) -> Mixture:
    """The law of a proposal: each branch with probability rate / bound, else stay."""
    share = rates.moving() / process.rate_bound(noisy).unsqueeze(-1)
    stay = (1 - share.sum(-1)).clamp(min=0)
    return Mixture(branches(stay, share[..., PREDICTION], share[..., NOISE]), rates.stay, rates.prediction, rates.noise)


def _nth(flags: Flags, n: Tensor) -> Tensor:
    """The position of the n-th flag of each row, counted from 0."""
    return ((flags.cumsum(1) > n[:, None]) & flags).int().argmax(1)
