r"""The Psi family: a step of the bridge superposed with a fresh noising of the prediction (`eq:psi-sampler-correct`).

    x_s  ~  kappa q_{s|0,t}(. | nu, x_t)  +  (1 - kappa) q_{s|0}(. | mu)

The bridge takes the leave-one-out posterior nu, the forward part the denoiser mu.  Since the bridge plugged with nu is
the bridge averaged over mu (`prop:loo`), both parts are written over mu here, whatever the model predicts.  Every
kappa in [0, 1] keeps the marginals of a position; kappa = 1 is ancestral sampling, whose joint law of several
positions is off by about 1/n after n steps.  Below 1 positions are redrawn together however small the step, with an
error of order (1 - kappa) t that later redraws mend only down to t of order n^-1/2: the error falls as n^-1/2 in the
end (slower where noise sets in like a root, as in GIDD), and as 1/n while the steps are few (up to about 100 at
kappa = 0.95).  The masked case, kappa = 1 - sigma / (1 - alpha_s), is ReMDM.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch

from tokenloom.couplings.steps import branches, bridge, stay_bound
from tokenloom.drawing.randomness import Randomness
from tokenloom.posteriors import Denoiser
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, InDoubt, MaskedOnly, Predictor, uniform_pair
from tokenloom.state import Noisy
from tokenloom.support.typed import UnitInterval
from tokenloom.types import PerRow


@PREDICTORS.register("psi")
@dataclass(frozen=True)
class Psi(InDoubt, Predictor):
    """kappa bridge + (1 - kappa) forward."""

    kappa: UnitInterval = 0.95
    """The share of the bridge."""
    since: UnitInterval = 1.0
    """Superpose only at times t up to this; before, the bridge alone."""

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        branch, token = uniform_pair(noisy, generator)
        kappa = torch.ones_like(noisy.t).masked_fill(noisy.t <= self.since, self.kappa)
        moving = noisy.free & (branch >= kappa[:, None] * stay_bound(process, noisy, s))
        local = evaluate(noisy).at(moving, Denoiser)
        down = bridge(process, local.noisy, local.of_row(s), local.posterior)
        share, alpha_s = (local.of_row(value)[:, None] for value in (kappa, process.alpha(s)))
        forward = branches(torch.zeros_like(alpha_s), alpha_s, 1 - alpha_s)
        law = replace(down, weights=share.unsqueeze(-1) * down.weights + (1 - share).unsqueeze(-1) * forward)
        return process.move_to(noisy, local.draw_from(law, noisy.tokens, branch, token), s)


@PREDICTORS.register("remasking")
@dataclass(frozen=True)
class Remasking(MaskedOnly, Predictor):
    """ReMDM with its schedules.
    Masked diffusion in which a visible token may be masked again, with the marginals of MDM.

        x_t visible:  x_s = mask with probability sigma, else x_t
        x_t masked:   x_s ~ mu with probability (alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t), else masked

    for 0 <= sigma <= sigma_max = min(1, (1 - alpha_s) / alpha_t).  Schedules of sigma (Wang et al.):

        cap      min(eta, sigma_max)           rescale  eta sigma_max
        switch   rescale, but only for t <= switch; plain MDM before
        loop     plain MDM down to `loop_start`, then a stretch of steps that stay at its level and remask with rescale,
                 and plain MDM again for what is left: every t in [loop_end, loop_start] maps to that one level, and the
                 state says the time of the level it has, not that of the grid.

    The cap ends at sigma_max whatever eta is, so that kappa = 0 there.  The loop keeps an error of order eta: it
    redraws positions together, without end, at a level where they still depend on each other.
    """

    schedule: Literal["cap", "rescale", "switch", "loop"] = "rescale"
    """The schedule of sigma, as above."""
    eta: UnitInterval = 0.05
    """The cap, or the share of sigma_max."""
    switch: UnitInterval = 0.55
    """The time from which on down the schedule `switch` remasks."""
    loop_start: float = 0.55
    """The time at which the schedule `loop` begins to loop."""
    loop_end: float = 0.05
    """The time at which the schedule `loop` ends its loop."""

    @property
    def exact(self) -> bool:
        return self.schedule != "loop"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.loop_end < self.loop_start < 1:
            raise ValueError(f"a loop needs 0 < loop_end < loop_start < 1, got {self.loop_end} and {self.loop_start}")

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process, free = evaluate.process, noisy.free
        branch, token = uniform_pair(noisy, generator)
        s = self._level_time(s)
        alpha_t, alpha_s = noisy.alpha_t[:, None], process.alpha(s)[:, None]
        sigma = self._sigma(noisy.t, s, alpha_s, alpha_t)
        hidden, masks = process.evidence(noisy) == 0, process.law(noisy).draw(token)
        unmask = (alpha_s - (1 - sigma) * alpha_t) / (1 - alpha_t)
        remasked = torch.where(free & ~hidden & (branch >= 1 - sigma), masks, noisy.tokens)
        local = evaluate(noisy).at(free & hidden & (branch >= 1 - unmask), Denoiser)
        return process.move_to(noisy, local.draw(remasked, token), s)

    def _level_time(self, t: PerRow) -> PerRow:
        """Return the time whose level the chain has at grid time t: itself, except in the loop."""
        if self.schedule != "loop":
            return t
        after = t * self.loop_start / self.loop_end
        return torch.where(t >= self.loop_start, t, torch.where(t < self.loop_end, after, self.loop_start))

    def _sigma(self, t: PerRow, s: PerRow, alpha_s: torch.Tensor, alpha_t: torch.Tensor) -> torch.Tensor:
        largest = torch.where(alpha_t > 1 - alpha_s, (1 - alpha_s) / alpha_t.clamp(min=1e-300), 1.0)
        if self.schedule == "cap":
            return largest.clamp(max=self.eta)
        if self.schedule == "rescale":
            return self.eta * largest
        active = t <= self.switch if self.schedule == "switch" else t == s
        return torch.where(active[:, None], self.eta * largest, 0.0)
