r"""Absorbing-state uniform diffusion (AUDM): given a sequence U of uniform tokens, position l is absorbed by U^l.

    q(x_t | x_s, U) = alpha_{t|s} [x_t = x_s] + (1 - alpha_{t|s}) [x_t = U]

Averaged over U this is UDM.  Given U it is masked diffusion with a mask of its own at every position: a token other
than U is clean (`eq:audm-posterior`), the bridge is `eq:audm-bridge`, and redrawing U from

    U_s | x_0, x_s  ~  [. = x_s]  if x_s != x_0,   else  (alpha_s 1 + (1 - alpha_s) [. = x_0]) / (1 + (K - 1) alpha_s)

after each step of the *uniform* bridge recovers the reverse chain of UDM (`main-eq:noise_cond_x0_xs`).
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.drawing.categorical import draw_uniform_tokens
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import Denoiser, Posterior
from tokenloom.processes.base import PROCESSES, Process
from tokenloom.processes.mixtures import Mixture, branches
from tokenloom.processes.noise import Noise, PointNoise, UniformNoise
from tokenloom.processes.uniform import Uniform
from tokenloom.state import NetworkInput, Noisy
from tokenloom.support.checks import check_time, check_tokens
from tokenloom.types import Auxiliary, Flags, PerRow, Tokens


@PROCESSES.register("absorbing")
@dataclass(frozen=True)
class AbsorbingUniform(Process):
    """AUDM on K tokens; `aux` of a state is the absorbing sequence U."""

    method = "audm"
    default_predicts = Denoiser
    bridge_takes = (Denoiser,)
    lifted = shows_auxiliary = point_noise = one_way = True

    @property
    def averaged(self) -> Uniform:
        return Uniform(self.vocab_size, schedule=self.schedule)

    @property
    def reveals(self) -> bool:
        return True

    def bound(self, predicts: type[Posterior]) -> str:
        return "jump-nelbo"

    def network_input(self, noisy: Noisy) -> NetworkInput:
        return replace(super().network_input(noisy), absorbing=noisy.aux)

    def hold(self, noisy: Noisy, tokens: Tokens, given: Flags) -> Noisy:
        """Given positions clean, U moved aside where it equals one: a token other than U is clean to the network."""
        held = super().hold(noisy, tokens, given)
        if held.aux is None:
            return held
        return replace(held, aux=torch.where(given & (held.aux == tokens), (tokens + 1) % self.vocab_size, held.aux))

    def auxiliary(self, x_0: Tokens, generator: Randomness | None) -> Auxiliary | None:
        return draw_uniform_tokens(uniform(tuple(x_0.shape), generator, x_0.device), self.vocab_size)

    def noise(self, noisy: Noisy) -> Noise:
        if noisy.aux is None:
            raise ValueError("AbsorbingUniform needs the absorbing sequence U in aux; corrupt() and prior() provide it")
        return PointNoise(noisy.aux, self.vocab_size, noisy.alpha_t.dtype)

    def resample(self, x_0: Tokens, x_s: Tokens, s: PerRow, generator: Randomness | None = None) -> Auxiliary:
        return self.resampling_law(x_0, x_s, s).draw(generator)

    def resampling_law(self, x_0: Tokens, x_s: Tokens, s: PerRow) -> Mixture:
        """The law of U_s given x_0 and x_s.

        Args:
            x_0: Clean tokens, or a draw of them.
            x_s: The tokens at time s.
            s: The time of each row.

        Returns:
            The law of every position.

        Raises:
            ValueError: If tokens or times are not those of this process.
        """
        check_tokens("x_0", x_0, self.vocab_size)
        check_tokens("x_s", x_s, self.vocab_size)
        check_time("s", s, x_s)
        alpha = self.alpha(s)[:, None]
        total = 1 + (self.vocab_size - 1) * alpha
        same = x_s == x_0
        stay = torch.where(same, (1 - alpha) / total, 1)
        fresh = torch.where(same, self.vocab_size * alpha / total, 0)
        noise = UniformNoise(self.vocab_size, x_s.device, alpha.dtype)
        return Mixture(branches(stay, torch.zeros_like(stay), fresh), x_s, x_0, noise)
