r"""Confidence order for masked diffusion: at each step the tokens the denoiser is surest of are unmasked.

At time s, floor(L alpha_s) of the free positions are visible; those newly unmasked have the largest score, one of

    probability   max_k mu_k             margin   the largest minus the second largest             entropy   -H(mu)

or, with a temperature, the largest of score + temperature x Gumbel noise.  The order only looks at what is visible, so
with exact posteriors and at least L steps, which unmask one position at a time, the law is p_0; a chain of fewer steps
draws the surest positions together, and at no time in between are the marginals those of MDM.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.drawing.log_space import entropy
from tokenloom.drawing.randomness import Randomness
from tokenloom.posteriors import Denoiser
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator, LocalPrediction
from tokenloom.samplers.kernel import PREDICTORS, MaskedOnly, Predictor, uniform_pair
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.support.typed import NotNegative
from tokenloom.types import Flags, PerPosition, PerRow

Score = Literal["probability", "margin", "entropy"]


@PREDICTORS.register("confidence")
@dataclass(frozen=True)
class Confidence(MaskedOnly, Predictor):
    """The surest first."""

    score: Score = "probability"
    """The confidence of a prediction: its largest probability, the lead of the largest, or minus its entropy."""
    temperature: NotNegative = 0.0
    """The scale of Gumbel noise on the order; 0 takes the surest."""

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process, free = evaluate.process, noisy.free
        order, token = uniform_pair(noisy, generator)
        hidden = process.evidence(noisy) == 0
        count = denoised(process, free, s) - (free & ~hidden).sum(1, keepdim=True)
        local = evaluate(noisy).at(hidden & (count > 0), Denoiser)
        unsure = doubt(local, order, self.score) - self.temperature * gumbel(order)
        return process.move_to(noisy, local.draw(noisy.tokens, token, among=smallest(unsure, count, order)), s)


def denoised(process: Process, free: Flags, s: PerRow) -> Int[Tensor, "batch 1"]:
    """Return floor(L alpha_s); 10 (1 - 0.9) is below 1 in floating point, and means one: 1e-9 lifts it."""
    return torch.floor(free.sum(1, keepdim=True) * process.alpha(s)[:, None] + 1e-9).long()


def doubt(local: LocalPrediction, order: PerPosition, score: Score) -> PerPosition:
    """Return minus the score of every predicted position, +inf elsewhere."""
    logits, nowhere = local.posterior.logits, torch.full_like(order, torch.inf)
    if score == "entropy":
        rows = logits.squeeze(1)
        return local.where.put(nowhere, entropy(rows, rows.new_ones(len(rows))).unsqueeze(1))
    probabilities = torch.softmax(logits.float(), -1)
    if score == "probability":
        sure = probabilities.amax(-1)
    else:
        first, second = torch.topk(probabilities, 2, dim=-1).values.unbind(-1)
        sure = first - second
    return local.where.put(nowhere, -sure.double())
