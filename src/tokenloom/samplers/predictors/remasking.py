r"""Masked diffusion in which a visible token may be masked again, with the marginals of MDM (Wang et al.).

    x_t visible:  x_s = mask with probability sigma, else x_t
    x_t masked:   x_s ~ mu with probability (alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t), else masked

for 0 <= sigma <= sigma_max = min(1, (1 - alpha_s) / alpha_t), where the second probability reaches 1.  It is the
masked case of the Psi family, with kappa = 1 - sigma / (1 - alpha_s).  Schedules of sigma, each only for t <= switch:

    cap      min(eta, sigma_max)           rescale  eta sigma_max
    loop     plain MDM down to a level, then a stretch of steps that stay there and remask with min(eta, sigma_max), and
             plain MDM again for what is left.  The grid times from `loop_start` to `loop_end` stand for that one level,
             those above and below for the way to it and from it, in proportion; the state says the time of the level
             it has, not that of the grid.

The error in the joint law of several positions falls as in `psi.py`; the cap ends at sigma_max whatever eta is, so that
kappa = 0 there.  The loop keeps an error of order eta: it redraws positions together, without end, at a level where
they still depend on each other.

The authors' code has the same schedules, except that a step of its loop takes both levels from the formula of the time
it starts at: one that crosses the beginning overshoots the level, and one that crosses the end stays there while the
next assumes less noise.  Here the marginals are those of the level at every step of every grid.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from tokenloom.drawing.randomness import Randomness
from tokenloom.posteriors import Denoiser
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, MaskedOnly, Predictor, uniform_pair
from tokenloom.state import Noisy
from tokenloom.support.typed import OpenUnitInterval, UnitInterval
from tokenloom.types import PerRow


@PREDICTORS.register("remasking")
@dataclass(frozen=True)
class Remasking(MaskedOnly, Predictor):
    """ReMDM with its schedules."""

    schedule: Literal["cap", "rescale", "loop"] = "rescale"
    """The schedule of sigma, as above."""
    eta: UnitInterval = 0.05
    """The largest sigma of `cap` and `loop`, the share of sigma_max of `rescale`."""
    switch: UnitInterval = 1.0
    """Remask only at times t up to this (in the loop, the time of its level); before, plain MDM."""
    loop_start: float = 0.55
    """The time at which the schedule `loop` begins to loop."""
    loop_end: float = 0.05
    """The time at which the schedule `loop` ends its loop."""
    loop_level: OpenUnitInterval | None = None
    """The signal alpha at which the loop stays; by default that of the schedule at `loop_start`."""

    @property
    def exact(self) -> bool:
        return self.schedule != "loop"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.loop_end < self.loop_start < 1:
            raise ValueError(f"a loop needs 0 < loop_end < loop_start < 1, got {self.loop_end} and {self.loop_start}")

    def check_order(self, s: PerRow, t: PerRow) -> None:
        if self.schedule != "loop":  # where a state says the time of its level
            super().check_order(s, t)

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process, free = evaluate.process, noisy.free
        branch, token = uniform_pair(noisy, generator)
        s = self._level_time(process, s)
        alpha_t, alpha_s = noisy.alpha_t[:, None], process.alpha(s)[:, None]
        sigma = self._sigma(noisy.t, s, alpha_s, alpha_t)
        hidden, masks = process.evidence(noisy) == 0, process.law(noisy).draw(token)
        unmask = (alpha_s - (1 - sigma) * alpha_t) / (1 - alpha_t)
        remasked = torch.where(free & ~hidden & (branch >= 1 - sigma), masks, noisy.tokens)
        local = evaluate(noisy).at(free & hidden & (branch >= 1 - unmask), Denoiser)
        return process.move_to(noisy, local.draw(remasked, token), s)

    def _level_time(self, process: Process, t: PerRow) -> PerRow:
        """Return the time whose level the chain has at grid time t: itself, except in the loop."""
        if self.schedule != "loop":
            return t
        start, end = self.loop_start, self.loop_end
        level = torch.full_like(t, start)
        if self.loop_level is not None:
            level = process.time_at(torch.full_like(t, self.loop_level)).clamp(max=1)
        before = t + (level - start) * (1 - t) / (1 - start)
        return torch.where(t > start, before, torch.where(t < end, t * level / end, level))

    def _sigma(self, t: PerRow, s: PerRow, alpha_s: torch.Tensor, alpha_t: torch.Tensor) -> torch.Tensor:
        largest = torch.where(alpha_t > 1 - alpha_s, (1 - alpha_s) / alpha_t.clamp(min=1e-300), 1.0)
        sigma = self.eta * largest if self.schedule == "rescale" else largest.clamp(max=self.eta)
        active = t <= self.switch
        if self.schedule == "loop":
            active &= t == s
        return torch.where(active[:, None], sigma, 0.0)
