r"""Ancestral sampling: x_s from the bridge, averaged over or plugged with the prediction at x_t.

    x_s^l  ~  w_stay [. = x_t^l] + w_prediction nu^l + w_noise w        (`couplings/base.py`)

Either the leave-one-out posterior is plugged in (`eq:param_plug_in`) or the bridge is averaged over the denoiser
(`eq:param_marginalization`): with exact posteriors the same law under every process (`prop:loo`), and by default
whichever the model predicts.  AUDM has its U fixed here (`alg:audm-sampler`), and MUDM its tau.

The weight of staying is least where the prediction has no mass on x_t.  That bound is known beforehand, so most
positions are settled by their first uniform number and only the others are predicted.
"""

from dataclasses import dataclass
from typing import Literal

from tokenloom.couplings.steps import Mixture, bridge, stay_bound
from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens
from tokenloom.samplers.evaluator import Evaluator, LocalPrediction
from tokenloom.samplers.kernel import PREDICTORS, Predictor, uniform_pair
from tokenloom.state import Noisy
from tokenloom.types import PerRow

THROUGH: dict[str, type[OverTokens]] = {"plug-in": LeaveOneOut, "marginalised": Denoiser}


@PREDICTORS.register("ancestral")
@dataclass(frozen=True)
class Ancestral(Predictor):
    """The bridge of the process."""

    through: Literal["model", "plug-in", "marginalised"] = "model"
    """The posterior that the bridge takes: the leave-one-out, the denoiser, or whichever the model predicts."""

    def check(self, model: Model) -> None:
        super().check(model)
        if self.through == "plug-in" and model.predicts is Denoiser and model.process.reveals:
            raise ValueError(
                f"the plug-in bridge takes the LeaveOneOut, which a model that predicts the Denoiser under "
                f"{model.process.title} cannot tell; leave `through` at model"
            )

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        branch, token = uniform_pair(noisy, generator)
        kind = evaluate.step_kind if self.through == "model" else THROUGH[self.through]

        def law(local: LocalPrediction) -> Mixture:
            return bridge(process, local.noisy, local.of_row(s), local.posterior)

        moving = branch >= stay_bound(process, noisy, s)
        return process.move_to(noisy, evaluate(noisy).redrawn(moving, kind, law, branch, token), s)
