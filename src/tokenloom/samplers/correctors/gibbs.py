r"""Gibbs correctors: k positions are redrawn from their conditional at the current level, m times (`alg:pc`).

    x_t^l  ~  p_t(. | x_t^{-l}) = alpha_t nu^l + (1 - alpha_t) pi                         (`prop:gibbs-conditional`)

The conditional comes from the leave-one-out posterior, converted from whatever the model predicts, so any model whose
tokens always leave some doubt has these correctors.  One position at a time in a random or a fixed order leaves p_t
invariant; k at once is the Hogwild approximation.  The informed corrector redraws the positions of smallest margin,

    margin^l = log p_t(x_t^l | x_t^{-l}) - max over y != x_t^l of log p_t(y | x_t^{-l}),

or draws them with probability decreasing in it (Gumbel top-k, `temperature`).  Because the choice of l looks at x_t^l,
the informed scan does not leave p_t invariant, even for k = 1: it is meant to repair, not to mix.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import LeaveOneOut, conditional_log_probs
from tokenloom.samplers.evaluator import Evaluator, LazyPrediction
from tokenloom.samplers.kernel import CORRECTORS, Corrector, uniform_pair
from tokenloom.samplers.needs import DOUBT
from tokenloom.samplers.selection import gumbel, smallest
from tokenloom.state import Noisy
from tokenloom.support.checks import check_least
from tokenloom.support.chunks import CACHED, by_chunks
from tokenloom.support.log_space import log_total
from tokenloom.types import Flags, PerPosition


@dataclass(frozen=True)
class Gibbs(Corrector):
    """What the scans share.

    Raises:
        ValueError: If `steps` or `parallel` is below 1.
    """

    steps: int = 1
    """Corrector steps after each predictor step, m."""
    parallel: int = 1
    """Positions redrawn at once, k."""

    serves = DOUBT

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, steps=1, parallel=1)

    @property
    def evaluations(self) -> int:
        return self.steps

    def look(self, prediction: LazyPrediction) -> LazyPrediction:
        """What the choice looks at before it is made.

        Args:
            prediction: The prediction at the current state.

        Returns:
            The same prediction, with what was computed for the choice kept for the draw.
        """
        return prediction

    @abstractmethod
    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> Flags:
        """The positions to redraw.

        Args:
            prediction: The prediction at the current state.
            order: Uniform numbers, one per position.
            index: The corrector steps done before, in the whole run.

        Returns:
            Flags of the positions.
        """

    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        process = evaluate.process
        for step in range(self.steps):
            order = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
            branch, token = uniform_pair(noisy, generator)
            prediction = self.look(evaluate(noisy))
            local = prediction.at(self.choose(prediction, order, call * self.steps + step), LeaveOneOut)
            conditional = process.marginal(local.noisy, local.posterior)
            noisy = process.move_to(noisy, local.draw_from(conditional, noisy.tokens, branch, token), noisy.t)
        return noisy


@CORRECTORS.register("informed")
@dataclass(frozen=True)
class Informed(Gibbs):
    """The positions of smallest margin (`alg:pc`).

    Raises:
        ValueError: If `temperature` is negative or infinite, `steps` or `parallel` below 1.
    """

    temperature: float = 0.0
    """0 takes the smallest margins; above, margin / temperature + Gumbel noise decides."""

    exact = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be in [0, inf), got {self.temperature}")

    def look(self, prediction: LazyPrediction) -> LazyPrediction:
        return prediction.keeping(prediction.noisy.free)

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> Flags:
        scores = margins(prediction)
        if self.temperature > 0:
            scores = scores / self.temperature - gumbel(order)
        return smallest(scores, self.parallel, order)


@CORRECTORS.register("random-scan")
@dataclass(frozen=True)
class RandomScan(Gibbs):
    """Positions in random order."""

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> Flags:
        return smallest(order.masked_fill(~prediction.noisy.free, torch.inf), self.parallel)


@CORRECTORS.register("scan")
@dataclass(frozen=True)
class DeterministicScan(Gibbs):
    """Free positions in reading order, continuing where the last step ended."""

    def choose(self, prediction: LazyPrediction, order: PerPosition, index: int) -> Flags:
        free = prediction.noisy.free
        count = free.sum(1, keepdim=True).clamp(min=1)
        rank = free.cumsum(1) - 1
        return free & ((rank - index * self.parallel) % count < self.parallel)


def margins(prediction: LazyPrediction) -> PerPosition:
    """The margin of every position, +inf where it is given; from the prediction before truncation.

    Args:
        prediction: The prediction at a state.

    Returns:
        Nats; the smaller, the less the other positions support a token.
    """
    noisy, process = prediction.noisy, prediction.evaluator.process
    local = prediction.at(noisy.free, LeaveOneOut, truncated=False)
    logits, own_index = local.posterior.logits.squeeze(1), local.noisy.tokens

    def margin(part: slice) -> Tensor:
        if not process.uniform_noise:
            rows = LeaveOneOut(logits[part].unsqueeze(1))
            law = conditional_log_probs(rows, local.noisy.sequences(part), process).double().squeeze(1)
            return law.gather(-1, own_index[part]) - law.scatter(-1, own_index[part], -torch.inf).amax(-1, keepdim=True)
        own = logits[part].gather(-1, own_index[part])
        others = logits[part].float().scatter(-1, own_index[part], -torch.inf)
        best, own = others.amax(-1, keepdim=True).double(), own.double()
        total = torch.logaddexp(log_total(others).unsqueeze(-1).double(), own)
        alpha = local.of_row(noisy.alpha_t)[part, None]
        own, best = (
            torch.log(alpha * (value - total).exp() + (1 - alpha) / process.vocab_size) for value in (own, best)
        )
        return own - best

    values = by_chunks(len(logits), logits.shape[1], margin, CACHED)
    return local.where.put(torch.full_like(noisy.tokens, torch.inf, dtype=torch.float64), values)
