r"""Rules that choose the positions of a step: those the denoiser is surest of, or the likeliest to be noise.

By confidence, floor(L alpha_s) free positions are denoised at time s: those with the largest score, one of

    probability   max_k mu_k             margin   the largest minus the second largest             entropy   -H(mu)

or, with a temperature, the largest of score + temperature x Gumbel noise.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.categorical import draw_uniform_tokens
from tokenloom.drawing.log_space import split_probability
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser, LeaveOneOut
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator, LocalPrediction
from tokenloom.samplers.kernel import PREDICTORS, InDoubt, MaskedOnly, Predictor, UniformOnly, uniform_pair
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.support.typed import NotNegative
from tokenloom.types import Flags, PerPosition, PerRow

Score = Literal["probability", "margin", "entropy"]


@PREDICTORS.register("confidence")
@dataclass(frozen=True)
class Confidence(MaskedOnly, Predictor):
    """The surest first.
    Confidence order for masked diffusion: at each step the tokens the denoiser is surest of are unmasked.

    The order only looks at what is visible, so with exact posteriors and at least L steps, which unmask one position at
    a time, the law is p_0; a chain of fewer steps draws the surest positions together, and at no time in between are
    the marginals those of MDM.
    """

    score: Score = "probability"
    """The confidence of a prediction: its largest probability, the lead of the largest, or minus its entropy."""
    temperature: NotNegative = 0.0
    """The scale of Gumbel noise on the order; 0 takes the surest."""

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process, free = evaluate.process, noisy.free
        order, token = uniform_pair(noisy, generator)
        hidden = process.evidence(noisy) == 0
        count = _denoised(process, free, s) - (free & ~hidden).sum(1, keepdim=True)
        local = evaluate(noisy).at(hidden & (count > 0), Denoiser)
        doubt = _doubt(local, order, self.score) - self.temperature * gumbel(order)
        arriving = local.among(smallest(doubt, count, order))
        return process.move_to(noisy, arriving.draw(noisy.tokens, token), s)


@PREDICTORS.register("routing")
@dataclass(frozen=True)
class Routing(UniformOnly, Predictor):
    """Confidence decides what is denoised.
    RDM (Zheng et al.): a bit b^l says which tokens count as denoised, and confidence routes positions in and out.

    At time s the surest positions get b_s = 1.  A position

        b_t = 1 and still chosen      keeps its token                  b_t = 1, no longer      becomes uniform noise
        b_t = 0 and chosen            draws from the denoiser          b_t = 0, not chosen     alpha_{t|s} x_t + noise

    so it is the bridge `eq:decomposed-udm-bridge` with its Bernoulli routes replaced by a rule: a heuristic, which does
    not keep the marginals of UDM.  The bits are the sampler's own memory.  A token that a corrector changes counts as
    noise again, b = 0.
    """

    exact = False

    def begin(self, process: Process, noisy: Noisy, generator: Randomness | None) -> Flags:
        return torch.zeros_like(noisy.tokens, dtype=torch.bool)

    def corrected(self, memory: Flags, changed: Flags) -> Flags:
        return memory & ~changed

    def advance(
        self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None, memory: Flags
    ) -> tuple[Noisy, Flags]:
        process, free = evaluate.process, noisy.free
        branch, token = uniform_pair(noisy, generator)
        order = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        local = evaluate(noisy).at(free, Denoiser)
        chosen = smallest(_doubt(local, order, "probability"), _denoised(process, free, s), order)
        lost = 1 - (noisy.alpha_t / process.alpha(s))[:, None]
        noised = free & ~chosen & (memory | (branch < lost))
        tokens = torch.where(noised, draw_uniform_tokens(token, process.vocab_size), noisy.tokens)
        arriving = local.among(chosen & ~memory)
        return process.move_to(noisy, arriving.draw(tokens, token), s), chosen


@PREDICTORS.register("planned")
@dataclass(frozen=True)
class Planned(InDoubt, Predictor):
    """Positions by the planner, tokens by the leave-one-out posterior.
    Planned denoising (Liu et al.): a planner says which tokens are noise, a denoiser what to put there instead.

    The denoiser of a uniform process factors (`eq:planned-factorized-denoiser`) as mu = (1 - a) [. = x_t] + a d, where

        a = P(x_t^l is noise | x_t) = (1 - alpha) pi / (alpha nu(x_t) + (1 - alpha) pi)      the planner
        d = nu, the leave-one-out posterior                                                  the one-position denoiser

    so any uniform model plans.  Under the maximal coupling a position jumps from t to s with probability gamma a,
    gamma = (alpha_s - alpha_t)/(1 - alpha_t).  Here their *number* has the mean of that law, gamma sum_l a^l, and the
    positions are drawn by the planner without replacement, so that the likeliest noise is replaced first.  In the limit
    of many steps one position jumps at a time, at the rate of the coupling, and the law is p_0; after few, some noise
    may be left at the end, among it tokens that the truncation forbids.
    """

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
        p, _ = split_probability(local.posterior.logits, local.noisy.tokens)
        alpha = local.of_row(noisy.alpha_t)[:, None]
        mass = process.masses.mass(local.noisy)
        planner = local.where.put(torch.zeros_like(order), mass / (alpha * p + mass))
        gamma = ((process.alpha(s) - noisy.alpha_t) / (1 - noisy.alpha_t))[:, None]
        count = torch.floor(gamma * planner.sum(1, keepdim=True) + rounding).long()
        chosen = smallest(-(planner.log() + gumbel(order)), count)
        return process.move_to(noisy, local.among(chosen).draw(noisy.tokens, token), s)


def _denoised(process: Process, free: Flags, s: PerRow) -> Int[Tensor, "batch 1"]:
    """Return floor(L alpha_s); 10 (1 - 0.9) is below 1 in floating point, and means one: 1e-9 lifts it."""
    return torch.floor(free.sum(1, keepdim=True) * process.alpha(s)[:, None] + 1e-9).long()


def _doubt(local: LocalPrediction, order: PerPosition, score: Score) -> Float[Tensor, "batch length"]:
    """Return minus the score of every predicted position, +inf elsewhere."""
    probabilities = torch.softmax(local.posterior.logits.float(), -1)
    if score == "probability":
        sure = probabilities.amax(-1)
    elif score == "entropy":
        sure = -torch.special.entr(probabilities).sum(-1)
    else:
        first, second = torch.topk(probabilities, 2, dim=-1).values.unbind(-1)
        sure = first - second
    return local.where.put(torch.full_like(order, torch.inf), -sure.double())
