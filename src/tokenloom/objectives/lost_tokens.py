r"""A noisy row given that some of its tokens are lost, or that none is, and the probability of that.

Token l is lost with probability 1 - kept_l, which is to say that a clock of rate h_l = -log kept_l rings before 1.  The
first clock of a row has the rate H = sum_l h_l, so

    P(none is lost) = exp(-H),      P(some are) = 1 - exp(-H).

Given that some are, the first clock rings at -log(1 - c P(some)) / H with c uniform, and the others run on from there:
all clocks are shifted alike.
"""

from dataclasses import replace

import torch

from tokenloom.couplings.transition_times import TransitionTimes
from tokenloom.drawing.randomness import Randomness, uniform_pair
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, PerRow, Tokens


def corrupted_given(
    process: Process, x_0: Tokens, t: PerRow, some: bool, generator: Randomness | None, given: Flags | None
) -> tuple[Noisy, PerRow]:
    """Draw x_t given that `some` token is lost, else given that none is; return the probability of that too."""
    timed = isinstance(process.coupling, TransitionTimes)
    state = Noisy(x_0, t, process.alpha(t), None if timed else process.auxiliary(x_0, generator), given)
    branch, token = uniform_pair(x_0, generator)
    kept = state.alpha_t[:, None].expand(x_0.shape) if timed else process.path.remains(process, state)
    hazard = -(kept if given is None else kept.masked_fill(given, 1)).log()
    if some:
        lost, probability = some_lost(branch, hazard)
    else:
        lost, probability = torch.zeros_like(x_0, dtype=torch.bool), torch.exp(-hazard.sum(-1))
    if isinstance(process.coupling, TransitionTimes):
        state = replace(state, aux=process.coupling.times_of(process, state, lost, generator))
    return replace(state, tokens=torch.where(lost, process.law(state).draw(token), x_0)), probability


def some_lost(numbers: PerPosition, hazard: PerPosition) -> tuple[Flags, PerRow]:
    """Flag the tokens whose clocks ring before 1, at least one per row, and return the probability of one at all."""
    clocks = torch.where(hazard > 0, -torch.log1p(-numbers) / hazard, torch.inf)
    first, total = clocks.amin(-1, keepdim=True), hazard.sum(-1, keepdim=True)
    some = -torch.expm1(-total)
    early = -torch.log1p(torch.expm1(-total * first) * some) / total
    early = torch.where(total.isfinite(), early, first)  # some token is lost in any case
    lost = (clocks - first + early < 1) | (clocks == first)  # rounding may put the first one at 1
    return lost & (hazard > 0), some.squeeze(-1)
