r"""Planned denoising (Liu et al.): a planner says which tokens are noise, a denoiser what to put there instead.

The denoiser of a uniform process factors (`eq:planned-factorized-denoiser`) as mu = (1 - a) [. = x_t] + a d, where

    a = P(x_t^l is noise | x_t) = (1 - alpha) pi / (alpha nu(x_t) + (1 - alpha) pi)        the planner
    d = nu, the leave-one-out posterior                                                    the one-position denoiser

so any uniform model plans.  Under the maximal coupling a position jumps from t to s with probability gamma a, gamma =
(alpha_s - alpha_t)/(1 - alpha_t).  Here their *number* has the mean of that law, gamma sum_l a^l, and the positions
are drawn by the planner without replacement, so that the likeliest noise is replaced first.  In the limit of many
steps one position jumps at a time, at the rate of the coupling, and the law is p_0; after few, some noise may be left
at the end, among it tokens that the truncation forbids.
"""

from dataclasses import dataclass

import torch

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import LeaveOneOut
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, InDoubt, Predictor, uniform_pair
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@PREDICTORS.register("planned")
@dataclass(frozen=True)
class Planned(InDoubt, Predictor):
    """Positions by the planner, tokens by the leave-one-out posterior."""

    needs = "a process without a mask that leaves every token in doubt"
    ends_predicted = False

    @classmethod
    def supports(cls, process: Process) -> bool:
        return super().supports(process) and process.mask is None

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        order, token = uniform_pair(noisy, generator)
        rounding = uniform((len(noisy.t), 1), generator, noisy.tokens.device)
        local = evaluate(noisy).at(noisy.free, LeaveOneOut)
        p = local.posterior.probability_of(local.noisy.tokens)
        alpha = local.of_row(noisy.alpha_t)[:, None]
        mass = process.masses.mass(local.noisy)
        planner = local.where.put(torch.zeros_like(order), mass / (alpha * p + mass))
        gamma = ((process.alpha(s) - noisy.alpha_t) / (1 - noisy.alpha_t))[:, None]
        count = torch.floor(gamma * planner.sum(1, keepdim=True) + rounding).long()
        chosen = smallest(-(planner.log() + gumbel(order)), count)
        return process.move_to(noisy, local.draw(noisy.tokens, token, among=chosen), s)
