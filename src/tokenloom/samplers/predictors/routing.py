r"""RDM (Zheng et al.): a bit b^l says which tokens count as denoised, and confidence routes positions in and out.

At time s the floor(L alpha_s) positions that the denoiser is surest of get b_s = 1.  A position

    b_t = 1 and still chosen      keeps its token                       b_t = 1, no longer      becomes uniform noise
    b_t = 0 and chosen            draws from the denoiser               b_t = 0, not chosen     alpha_{t|s} x_t + noise

so it is the bridge `eq:decomposed-udm-bridge` with its Bernoulli routes replaced by a rule: a heuristic, which does not
keep the marginals of UDM.

The bits are the sampler's own memory.  A token that a corrector changes counts as noise again, b = 0.
"""

from dataclasses import dataclass

import torch

from tokenloom.drawing.categorical import draw_uniform_tokens
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor, UniformOnly, uniform_pair
from tokenloom.samplers.predictors.confidence import denoised, doubt
from tokenloom.samplers.selection import smallest
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerRow


@PREDICTORS.register("routing")
@dataclass(frozen=True)
class Routing(UniformOnly, Predictor):
    """Confidence decides what is denoised."""

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
        chosen = smallest(doubt(local, order, "probability"), denoised(process, free, s), order)
        lost = 1 - (noisy.alpha_t / process.alpha(s))[:, None]
        noised = free & ~chosen & (memory | (branch < lost))
        tokens = torch.where(noised, draw_uniform_tokens(token, process.vocab_size), noisy.tokens)
        return process.move_to(noisy, local.draw(tokens, token, among=chosen & ~memory), s), chosen
