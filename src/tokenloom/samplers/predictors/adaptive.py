r"""Confidence order under uniform noise: the tokens that the prediction disagrees with most are replaced first.

With p the prediction at a position and x_t the token there, the best token leads by

    lead = max_k p_k - p(x_t)

Of the positions that are led (lead > 0), those with the largest lead w(x_t) get the best token, or with `draw` one from
p; w is the law of a lost token, which decides nothing under uniform noise.  Their number at a step is

    floor(L alpha_s) - floor(L alpha_t)      or `parallel`      or all with lead >= `threshold`, and at least one

except that the last step replaces all that are led, so that no token is left that the prediction rules out.  But for
that step it is the *adaptive* sampler of gidd and Sumi, with `parallel` their number, and on the denoiser the
confidence sampler of the paper's code, which compares logits.  A heuristic: it keeps no marginals, and seeks the mode.

The leave-one-out posterior says what all other positions make of one, so a wrong token finds no support in itself.  The
denoiser counts the token as evidence of itself, by a level that is right for draws of the process and not for what
stands here; it replaces less, and narrows the law less.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.categorical import probabilities
from tokenloom.drawing.chunks import by_chunks
from tokenloom.drawing.randomness import Randomness
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens
from tokenloom.samplers.evaluator import Evaluator, LocalPrediction
from tokenloom.samplers.kernel import PREDICTORS, InDoubt, Predictor, uniform_pair
from tokenloom.samplers.predictors.confidence import denoised
from tokenloom.samplers.selection import ROUNDING, mode, smallest
from tokenloom.state import Noisy
from tokenloom.support.typed import Count, UnitInterval
from tokenloom.types import PerRow

ON: dict[str, type[OverTokens]] = {"loo": LeaveOneOut, "denoiser": Denoiser}


@PREDICTORS.register("adaptive")
@dataclass(frozen=True)
class Adaptive(InDoubt, Predictor):
    """Replace first what the prediction disagrees with most."""

    parallel: Count | None = None
    """Positions replaced per step; by default as many as the schedule denoises."""
    threshold: UnitInterval | None = None
    """Instead of a number, replace all positions whose lead is at least this, and at least one."""
    draw: bool = False
    """Draw the new tokens from the prediction rather than take the best."""
    on: Literal["loo", "denoiser"] = "loo"
    """The prediction: the leave-one-out posterior, or the denoiser."""

    exact = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parallel is not None and self.threshold is not None:
            raise ValueError(f"give parallel or threshold, not both, got {self.parallel} and {self.threshold:g}")

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        order, token = uniform_pair(noisy, generator)
        local = evaluate(noisy).at(noisy.free, ON[self.on])
        lead = local.where.put(torch.zeros_like(order), leads(local))
        noise = process.law(noisy).probability_of(noisy.tokens)
        share = noise / noise.amax(1, keepdim=True).clamp(min=1e-300)  # ties are told by the absolute size of scores
        limit = torch.where(s > 0, torch.inf if self.threshold is None else self.threshold, 0.0)[:, None]
        beyond = (lead > 0) & (lead >= limit)
        if self.threshold is not None:
            count = 1 - beyond.any(1, keepdim=True).long()
        elif self.parallel is not None:
            count = torch.full_like(noisy.tokens[:, :1], self.parallel)
        else:
            count = denoised(process, noisy.free, s) - denoised(process, noisy.free, noisy.t)
        led = local.among(beyond | smallest(torch.where(lead > 0, -lead * share, torch.inf), count, order))
        if self.draw:
            return process.move_to(noisy, led.draw(noisy.tokens, token), s)
        return process.move_to(noisy, led.where.put(noisy.tokens, mode(led.posterior.logits)), s)


def leads(local: LocalPrediction) -> Float[Tensor, "positions 1"]:
    """Return the lead of the best token over the one at each position, 0 where they are equal within rounding."""
    logits, tokens = local.posterior.logits.squeeze(1), local.noisy.tokens

    def lead(part: slice) -> Tensor:
        p, own = probabilities(logits[part]), tokens[part]
        is_token = own < p.shape[-1]  # the prediction gives no mass to a mask
        there = torch.where(is_token, p.gather(-1, torch.where(is_token, own, 0)), 0).double()
        best = p.amax(-1, keepdim=True).double()
        return torch.where(there < best * (1 - ROUNDING), best - there, 0)

    return by_chunks(len(logits), logits.shape[1], lead)
