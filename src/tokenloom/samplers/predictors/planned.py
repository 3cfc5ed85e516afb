r"""Planned denoising (Liu et al.): a planner says which tokens are noise, a denoiser what to put there instead.

The denoiser of a uniform process factors (`eq:planned-factorized-denoiser`) as mu = (1 - a) [. = x_t] + a d, where

    a = P(x_t^l is noise | x_t) = (1 - alpha) pi / (alpha nu(x_t) + (1 - alpha) pi)        the planner
    d = nu, the leave-one-out posterior                                                    the one-position denoiser

so any uniform model plans.  Under the maximal coupling a position jumps from t to s with probability
gamma a, gamma = (alpha_s - alpha_t)/(1 - alpha_t).  Here their *number* has the mean of that law, gamma sum_l a^l, and
the positions are drawn by the planner without replacement, so that the likeliest noise is replaced first.
"""

from dataclasses import dataclass

import torch

from tokenloom.posteriors import LeaveOneOut, split_probability
from tokenloom.processes import MaxCoupling, Uniform
from tokenloom.randomness import Randomness, uniform
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import Predictor, free, register, two_numbers
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@register("planned")
@dataclass(frozen=True)
class Planned(Predictor):
    """Positions by the planner, tokens by the leave-one-out posterior."""

    serves = (Uniform, MaxCoupling)
    exact = False

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        order, token = two_numbers(noisy, generator)
        rounding = uniform((len(noisy.t), 1), generator, noisy.tokens.device)
        prediction = evaluate(noisy)
        answer = prediction.at(free(noisy), LeaveOneOut)
        p, _ = split_probability(answer.posterior.logits, answer.noisy.tokens)
        alpha = answer.rows(noisy.alpha_t)[:, None]
        pi = process.noise(answer.noisy).probability_of(answer.noisy.tokens)
        planner = torch.zeros_like(order).masked_scatter(
            answer.where, (1 - alpha) * pi / (alpha * p + (1 - alpha) * pi)
        )
        gamma = ((process.alpha(s) - noisy.alpha_t) / (1 - noisy.alpha_t))[:, None]
        count = torch.floor(gamma * planner.sum(1, keepdim=True) + rounding).long()
        chosen = smallest(-(planner.log() + gumbel(order)), count)
        picked = prediction.at(chosen, LeaveOneOut)
        return process.arrive(noisy, picked.draw(noisy.tokens, token), s)
