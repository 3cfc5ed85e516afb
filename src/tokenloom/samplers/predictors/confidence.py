r"""Confidence order for masked diffusion: at each step the tokens the denoiser is surest of are unmasked.

At time s, floor(L alpha_s) of the free positions are visible; those newly unmasked have the largest score, one of

    probability   max_k mu_k             margin   the largest minus the second largest             entropy   -H(mu)

or, with a temperature, the largest of score + temperature x Gumbel noise.  The order only looks at what is visible, so
with exact posteriors and at least L steps, which unmask one position at a time, the law is p_0; a chain of fewer steps
draws the surest positions together, and at no time in between are the marginals those of MDM.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from tokenloom.drawing.randomness import Randomness
from tokenloom.posteriors import Denoiser
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, MaskedOnly, Predictor, uniform_pair
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@PREDICTORS.register("confidence")
@dataclass(frozen=True)
class Confidence(MaskedOnly, Predictor):
    """The surest first."""

    score: Literal["probability", "margin", "entropy"] = "probability"
    """The confidence of a prediction: its largest probability, the lead of the largest, or minus its entropy."""
    temperature: float = 0.0
    """The scale of Gumbel noise on the order; 0 takes the surest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be in [0, inf), got {self.temperature}")

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process, free = evaluate.process, noisy.free
        order, token = uniform_pair(noisy, generator)
        hidden = process.evidence(noisy) == 0
        # 10 (1 - 0.9) is below 1 in floating point, and means one: 1e-9 lifts it.
        visible = torch.floor(free.sum(1, keepdim=True) * process.alpha(s)[:, None] + 1e-9).long()
        count = visible - (free & ~hidden).sum(1, keepdim=True)
        asked = hidden & (count > 0)
        local = evaluate(noisy).at(asked, Denoiser)
        sure = self._score(torch.softmax(local.posterior.logits.float(), -1)).double()
        doubt = local.where.put(torch.full_like(order, torch.inf), -sure)
        arriving = local.among(smallest(doubt - self.temperature * gumbel(order), count, order))
        return process.move_to(noisy, arriving.draw(noisy.tokens, token), s)

    def _score(self, probabilities: Tensor) -> Tensor:
        if self.score == "probability":
            return probabilities.amax(-1)
        if self.score == "entropy":
            entropy: Tensor = torch.special.entr(probabilities).sum(-1)
            return -entropy
        first, second = torch.topk(probabilities, 2, dim=-1).values.unbind(-1)
        return first - second
