r"""RDM (Zheng et al.): a bit b^l says which tokens count as denoised, and confidence routes positions in and out.

At time s the floor(L alpha_s) positions that the denoiser is surest of get b_s = 1.  A position

    b_t = 1 and still chosen      keeps its token                       b_t = 1, no longer      becomes uniform noise
    b_t = 0 and chosen            draws from the denoiser               b_t = 0, not chosen     alpha_{t|s} x_t + noise

so it is the bridge `eq:decomposed-udm-bridge` with its Bernoulli routes replaced by a rule: a rule of thumb, which does
not keep the marginals of UDM.
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.bridges import survival
from tokenloom.categorical import draw_uniform_tokens
from tokenloom.posteriors import Denoiser
from tokenloom.processes import Process, Uniform
from tokenloom.randomness import Randomness
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import Predictor, free, register, two_numbers
from tokenloom.samplers.selection import smallest
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@register("routing")
@dataclass(frozen=True)
class Routing(Predictor):
    """Confidence decides what is denoised; `aux` of the state holds the bits."""

    serves = (Uniform,)
    exact = False

    def initial(
        self, process: Process, batch: int, length: int, generator: Randomness | None, device: torch.device
    ) -> Noisy:
        state = process.prior(batch, length, generator, device)
        return replace(state, aux=torch.zeros_like(state.tokens, dtype=torch.float64))

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process, movable = evaluate.process, free(noisy)
        assert noisy.aux is not None
        branch, token = two_numbers(noisy, generator)
        prediction = evaluate(noisy)
        answer = prediction.at(movable, Denoiser)
        surest = torch.softmax(answer.posterior.logits.float(), -1).amax(-1)
        doubt = torch.full_like(branch, torch.inf).masked_scatter(answer.where, -surest.double())
        count = torch.floor(movable.sum(1, keepdim=True) * process.alpha(s)[:, None] + 1e-9).long()
        chosen, denoised = smallest(doubt, count), noisy.aux > 0
        _, lost = survival(process.alpha(s)[:, None], noisy.alpha_t[:, None])
        noised = movable & ~chosen & (denoised | (branch < lost))
        tokens = torch.where(noised, draw_uniform_tokens(token, process.vocab_size), noisy.tokens)
        arriving = prediction.at(chosen & ~denoised, Denoiser)
        return replace(process.arrive(noisy, arriving.draw(tokens, token), s), aux=chosen.double())
