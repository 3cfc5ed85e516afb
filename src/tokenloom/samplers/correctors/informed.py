r"""The informed corrector: a Gibbs corrector that looks at the tokens to choose what to redraw (`alg:pc`).

With p = p_t(. | x_t^{-l}) the conditional of position l (`gibbs.py`), before any truncation, it redraws the positions
of the smallest score,

    margin    log p(x_t^l) - max over y != x_t^l of log p(y)
    top       max over y of log p(y)
    current   log p(x_t^l)

or, at a temperature, draws them without replacement with probabilities softmax(-score / temperature) (Gumbel top-k).
Because the choice of l looks at x_t^l, p_t is not left invariant, even for k = 1: it is meant to repair, not to mix.
`random` looks at nothing and is the random scan.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.chunks import CACHED, by_chunks
from tokenloom.drawing.log_space import log_total
from tokenloom.posteriors import LeaveOneOut, gibbs_conditional
from tokenloom.process import Process
from tokenloom.samplers.correctors.gibbs import Gibbs, at_random
from tokenloom.samplers.evaluator import LazyPrediction, LocalPrediction
from tokenloom.samplers.kernel import CORRECTORS
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.support.typed import NotNegative
from tokenloom.types import PerPosition

Score = Literal["margin", "top", "current"]


@CORRECTORS.register("informed")
@dataclass(frozen=True)
class Informed(Gibbs):
    """Redraw the positions that the model likes least (`alg:pc`)."""

    temperature: NotNegative = 0.0
    """0 takes the smallest scores; above, score / temperature + Gumbel noise decides."""
    by: Literal["margin", "top", "current", "random"] = "margin"
    """The score: the lead of the current token in log probability, that of the most probable token, that of the current
    one, or none, which draws positions evenly and is then exact."""

    @property
    def exact(self) -> bool:
        return self.by == "random" and super().exact

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> LocalPrediction:
        if self.by == "random":
            return at_random(prediction, order, self.parallel)
        everywhere = prediction.at(prediction.noisy.free, LeaveOneOut, truncated=False)
        scores = scores_of(everywhere, prediction.noisy, prediction.evaluator.process, self.by)
        if self.temperature > 0:
            scores = scores / self.temperature - gumbel(order)
        chosen = smallest(scores, self.parallel, order)
        if prediction.evaluator.truncation is None:
            return everywhere.among(chosen)
        return prediction.at(chosen, LeaveOneOut)


def scores_of(local: LocalPrediction, noisy: Noisy, process: Process, by: Score) -> PerPosition:
    """Return the score of every position, +inf where it is given."""
    logits = local.posterior.logits.squeeze(1)
    values = by_chunks(
        len(logits),
        logits.shape[1],
        lambda part: _score(logits[part], local.noisy.sequences(part), process, by),
        CACHED,
    )
    return local.where.put(torch.full_like(noisy.tokens, torch.inf, dtype=torch.float64), values)


def _score(
    logits: Float[Tensor, "positions vocab"], noisy: Noisy, process: Process, by: Score
) -> Float[Tensor, "positions 1"]:
    own, rival = _own_and_rival(logits, noisy, process)
    return own - rival if by == "margin" else own if by == "current" else own.maximum(rival)


def _own_and_rival(
    logits: Float[Tensor, "positions vocab"], noisy: Noisy, process: Process
) -> tuple[Float[Tensor, "positions 1"], Float[Tensor, "positions 1"]]:
    """Return log p of x_t and of the best other token; for uniform noise from the largest logits alone."""
    index = noisy.tokens
    if not process.uniform_noise:
        law = gibbs_conditional(LeaveOneOut(logits.unsqueeze(1)), noisy, process).double().squeeze(1)
        return law.gather(-1, index), law.scatter(-1, index, -torch.inf).amax(-1, keepdim=True)
    others = logits.float().scatter(-1, index, -torch.inf)
    rival, own = others.amax(-1, keepdim=True).double(), logits.gather(-1, index).double()
    total = torch.logaddexp(log_total(others).unsqueeze(-1).double(), own)
    alpha = noisy.alpha_t[:, None]
    own, rival = (torch.log(alpha * (value - total).exp() + (1 - alpha) / process.vocab_size) for value in (own, rival))
    return own, rival
