r"""The absorbing coupling: given a sequence U of draws of the noise, position l is absorbed by U^l.

    q(x_t | x_s, U) = alpha_{t|s} [x_t = x_s] + (1 - alpha_{t|s}) [x_t = U]

Given U it is masked diffusion with a mask of its own at every position: a token other than U is clean
(`eq:audm-posterior`), the bridge is `eq:audm-bridge`.  Averaged over U its one-time marginals are those of the Markov
coupling; its paths are those of the maximal one.  Redrawing U from

    U_s | x_0, x_s  ~  [. = x_s]  if x_s != x_0,   else  x_0 with probability m_s/(alpha_s + m_s), a draw of w otherwise

after each step of the *Markov* bridge, x_0 drawn jointly, recovers the Markov chain (`main-eq:noise_cond_x0_xs`).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from tokenloom.couplings.base import COUPLINGS, Chain, Lifted, probability_lost, shown
from tokenloom.couplings.markov import survival
from tokenloom.couplings.steps import Mixture, branches
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.noise.law import Law, PointLaw
from tokenloom.state import Noisy
from tokenloom.types import Auxiliary, PerPosition, PerRow, Tokens, sealed

if TYPE_CHECKING:
    from tokenloom.process import Process


@COUPLINGS.register("absorbing")
@sealed
@dataclass(frozen=True)
class Absorbing(Lifted, Chain):
    """One path per token, shown with U."""

    def law(self, process: "Process", noisy: Noisy) -> Law:
        return PointLaw(shown(noisy, "the absorbing sequence U"), process.num_states)

    def mass(self, process: "Process", noisy: Noisy) -> PerPosition:
        return (1 - noisy.alpha_t.double()[:, None]) * self.law(process, noisy).probability_of(noisy.tokens)

    def auxiliary(self, process: "Process", tokens: Tokens, generator: Randomness | None) -> Auxiliary:
        start = torch.ones(len(tokens), device=tokens.device, dtype=torch.float64)
        law = process.masses.law(Noisy(tokens, start, start), start)
        return law.draw(uniform(tuple(tokens.shape), generator, tokens.device))

    def prior(self, process: "Process", noisy: Noisy, generator: Randomness | None) -> Noisy:
        """Every token is its U."""
        assert noisy.aux is not None
        return replace(noisy, tokens=noisy.aux)

    def resample(self, process: "Process", x_0: Tokens, x_s: Noisy, generator: Randomness | None) -> Auxiliary:
        return self.resampling_law(process, x_0, x_s).draw(generator)

    def resampling_law(self, process: "Process", x_0: Tokens, x_s: Noisy) -> Mixture:
        """Return the law of U_s given x_0 and x_s, as above."""
        lost = probability_lost(process, x_0, x_s)
        weights = branches(lost, torch.zeros_like(lost), 1 - lost)
        return Mixture(weights, x_s.tokens, x_0, process.masses.law(x_s, x_s.t))

    def hold(self, process: "Process", noisy: Noisy) -> Noisy:
        """Replace U where it equals a given token: a network reads a token other than U as clean."""
        if noisy.aux is None or noisy.given is None:
            return noisy
        same = noisy.given & (noisy.aux == noisy.tokens)
        return replace(noisy, aux=torch.where(same, (noisy.tokens + 1) % process.vocab_size, noisy.aux))

    def kept(self, process: "Process", noisy: Noisy, t: PerRow) -> tuple[PerPosition, Law]:
        return survival(process, noisy, t), self.law(process, noisy)

    def loss_rate(self, process: "Process", noisy: Noisy) -> tuple[PerPosition, Law]:
        beta = -process.alpha_prime(noisy.t) / noisy.alpha_t.double()
        return beta[:, None].expand(noisy.tokens.shape), self.law(process, noisy)
