r"""Entropy-bound acceptance (Ben-Hamu et al.), as in DiffusionGemma: the surest tokens are drawn, the rest is noise.

With mu the denoiser, T = cold + (hot - cold) t and p proportional to mu^(1/T), where a token may be noise,

    accepted    the positions of smallest entropy H(p), while the smaller entropies sum to at most `bound`: at least one
    x_s         drawn from p where accepted, elsewhere noise again, also what was accepted before; a mask stays a mask
    x_0         the most probable token everywhere, whatever was accepted

The sum without its largest entropy bounds what independent draws lose, sum H - H(joint).  A heuristic all the same: it
sharpens, keeps no marginals, and the time of a state says which step it is, not how much noise is left.

A leave-one-out posterior would not do: it does not see the token that was accepted before and draws another, so that
nothing ever settles.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from tokenloom.drawing.categorical import invert
from tokenloom.drawing.chunks import CACHED, chunks
from tokenloom.drawing.log_space import heated
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator, LocalPrediction
from tokenloom.samplers.kernel import PREDICTORS, Predictor, uniform_pair
from tokenloom.samplers.selection import ROUNDING, mode, smallest
from tokenloom.state import Noisy
from tokenloom.support.typed import NotNegative, Positive
from tokenloom.types import Flags, PerPosition, PerRow, Tokens


@PREDICTORS.register("entropy-bound")
@dataclass(frozen=True)
class EntropyBound(Predictor):
    """Draw the surest tokens at each step, and noise the others again."""

    bound: NotNegative = 0.1
    """The largest sum of the accepted positions' entropies, in nats, the largest of them not counted."""
    hot: Positive = 0.8
    """The temperature at t = 1."""
    cold: Positive = 0.4
    """The temperature at t = 0; linear in between."""

    exact = False
    needs = "a process with a bridge and no auxiliary variable"

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.has_bridge and not process.lifted

    def temperature_at(self, t: PerRow) -> PerRow:
        return self.cold + (self.hot - self.cold) * t

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        order, token = uniform_pair(noisy, generator)
        fresh = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
        doubtful, last = process.evidence(noisy).isfinite(), (s == 0)[:, None]
        local = evaluate(noisy).at(doubtful, Denoiser)
        tokens = noisy.tokens
        if not evaluate.asks or not bool(last.all()):
            drawn, heat = self._drawn(local, token, self.temperature_at(noisy.t))
            accepted = within(heat, self.bound, order)
            noise = process.law(process.move_to(noisy, tokens, s)).draw(fresh)
            tokens = torch.where(accepted, drawn, torch.where(doubtful, noise, tokens))
        if not evaluate.asks or bool(last.any()):
            tokens = torch.where(last, local.where.put(noisy.tokens, mode(local.posterior.logits)), tokens)
        return process.move_to(noisy, tokens, s)

    def _drawn(self, local: LocalPrediction, token: PerPosition, temperature: PerRow) -> tuple[Tokens, PerPosition]:
        """Return draws from the heated prediction and its entropies; 0 and +inf where nothing was predicted."""
        logits, at, u = local.posterior.logits.squeeze(1), local.of_row(temperature), local.where.take(token).squeeze(1)
        found = []
        for part in chunks(len(logits), logits.shape[1], CACHED):  # drawn while the weights are in the cache
            weights, entropies = heated(logits[part], at[part])
            found.append((invert(weights, u[part]), entropies))
        drawn, heat = (torch.cat(each).unsqueeze(1) for each in zip(*found, strict=True))
        nothing = torch.zeros_like(token, dtype=torch.long), torch.full_like(token, torch.inf)
        return local.where.put(nothing[0], drawn), local.where.put(nothing[1], heat)


def within(entropies: PerPosition, bound: float, order: PerPosition) -> Flags:
    """Flag the smallest entropies of each row while those before them sum to at most the bound; +inf is none."""
    before = pad(entropies.sort(1).values.cumsum(1)[:, :-1], (1, 0))
    count = (before <= bound + ROUNDING * max(1, bound)).sum(1, keepdim=True)
    return smallest(entropies, count, order)
