r"""The Psi family: a step of the bridge superposed with a fresh noising of the prediction (`eq:psi-sampler-correct`).

    x_s  ~  kappa q_{s|0,t}(. | nu, x_t)  +  (1 - kappa) q_{s|0}(. | mu)

The bridge takes the leave-one-out posterior nu, the forward part the denoiser mu.  Since the bridge plugged with nu is
the bridge averaged over mu (`prop:loo`), both parts are written over mu here, whatever the model predicts.  Every
kappa in [0, 1] keeps the marginals of a position; kappa = 1 is ancestral sampling, whose joint law of several
positions is off by about 1/n after n steps.  Below 1 positions are redrawn together however small the step, with an
error of order (1 - kappa) t that later redraws mend only down to t of order n^-1/2: the error falls as n^-1/2 in the
end (slower where noise sets in like a root, as in GIDD), and as 1/n while the steps are few (up to about 100 at
kappa = 0.95).  The masked case is ReMDM (`remasking.py`).
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.couplings.steps import Mixture, branches, bridge, stay_bound
from tokenloom.drawing.randomness import Randomness
from tokenloom.posteriors import Denoiser
from tokenloom.samplers.evaluator import Evaluator, LocalPrediction
from tokenloom.samplers.kernel import PREDICTORS, InDoubt, Predictor, uniform_pair
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

        def law(local: LocalPrediction) -> Mixture:
            down = bridge(process, local.noisy, local.of_row(s), local.posterior)
            share, alpha_s = (local.of_row(value)[:, None] for value in (kappa, process.alpha(s)))
            forward = branches(torch.zeros_like(alpha_s), alpha_s, 1 - alpha_s)
            return replace(down, weights=share.unsqueeze(-1) * down.weights + (1 - share).unsqueeze(-1) * forward)

        return process.move_to(noisy, evaluate(noisy).redrawn(moving, Denoiser, law, branch, token), s)
