r"""The price per token that a bound pays for the signal left at t = 1 (`schedules.py` says why).

nothing is shown, and every token may be noise:   KL(q_{1|0} || w), which needs no network: with q = alpha_1 + m_1(x_0),
                                                  q log(q / w(x_0)) + (1 - q) log(1 - alpha_1)
else (MDM, AUDM, MUDM, tables with zeros):        the divergence of one step, from the prior at alpha = 0 to alpha_1

Add its mean to the mean of a continuous-time bound; both are 0 if alpha_1 = 0.  It is not a training objective: the
first form has no gradient, and the second looks at t = 1 alone.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from tokenloom.couplings.base import Timed
from tokenloom.drawing.randomness import Randomness
from tokenloom.objectives.finite_step import divergence_of_step
from tokenloom.posteriors import Posterior, Score
from tokenloom.process import Process
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, Tokens


@dataclass(frozen=True)
class PriorTerm:
    """The part of a bound that is paid at t = 1."""

    name: ClassVar[str] = "prior-term"

    def check(self, process: Process, predicts: type[Posterior]) -> None:
        """Raise where the term needs a network and cannot be computed from what it predicts."""
        if predicts is Score and not needs_no_network(process):
            raise ValueError(
                f"the prior term of {process.title} needs a network that predicts a Denoiser or a LeaveOneOut, got one "
                "that predicts a Score; use a schedule that leaves no signal at t = 1, as LinearSchedule(eps=0)"
            )

    def state(self, process: Process, x_0: Tokens, generator: Randomness | None, given: Flags | None) -> Noisy:
        """Draw the prior, at level 0: nothing of x_0 except its given positions."""
        state = process.prior(len(x_0), x_0.shape[1], generator, x_0.device)
        tokens = state.tokens if given is None else torch.where(given, x_0, state.tokens)
        return replace(state, tokens=tokens, given=given, alpha_t=torch.zeros_like(state.alpha_t))

    def closed_form(self, x_0: Tokens, process: Process, given: Flags | None) -> PerPosition:
        """Return the first form above."""
        one = torch.ones(len(x_0), device=x_0.device, dtype=torch.float64)
        at_end = Noisy(x_0, one, process.alpha(one))
        alpha, w = at_end.alpha_t[:, None], process.masses.law(at_end, one).probability_of(x_0)
        same = alpha + (1 - alpha) * w
        price = same * torch.log1p(alpha * (1 - w) / w) + (1 - same) * torch.log1p(-alpha)
        return price if given is None else price.masked_fill(given, 0)

    def per_token(self, prediction: Posterior, x_0: Tokens, noisy: Noisy, process: Process) -> PerPosition:
        """Return the second form above, at a state that `state` made."""
        if not isinstance(process.coupling, Timed):  # else it is known that all tokens are lost
            noisy = replace(noisy, t=process.time_at(noisy.alpha_t))  # level 0 lies after t = 1
        return divergence_of_step(prediction, x_0, noisy, torch.ones_like(noisy.t), process)


def needs_no_network(process: Process) -> bool:
    """Return whether the price of the prior follows from the noise alone."""
    return not process.lifted and not process.masses.support.never
