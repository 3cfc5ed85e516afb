r"""Ancestral sampling: x_s from the bridge, averaged over or plugged with the prediction at x_t.

    x_s^l  ~  w_stay [. = x_t^l] + w_prediction nu^l + w_noise pi        (`bridges.py`)

For UDM either the leave-one-out posterior is plugged in (`eq:param_plug_in`) or the bridge is averaged over the
denoiser (`eq:param_marginalization`): with exact posteriors the same law (`prop:loo`), and by default whichever the
model predicts.  MDM (`eq:mdm-bridge`), AUDM with its U fixed (`alg:audm-sampler`), max coupling and MUDM with its tau
fixed average over their denoisers.

The weight of staying is least where the prediction has no mass on x_t.  That bound is known beforehand, so most
positions are settled by their first uniform number and only the others are predicted.
"""

from dataclasses import dataclass
from typing import Literal

from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens
from tokenloom.processes import AbsorbingUniform, Masked, MaskedUniform, MaxCoupling, Uniform
from tokenloom.randomness import Randomness
from tokenloom.samplers.evaluator import Evaluator, Model
from tokenloom.samplers.kernel import Predictor, natural, register, two_numbers
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@register("ancestral")
@dataclass(frozen=True)
class Ancestral(Predictor):
    """The bridge of the process."""

    through: Literal["model", "plug-in", "marginalised"] = "model"
    """Which extension of UDM's bridge: of the leave-one-out posterior, the denoiser, or what the model predicts."""

    serves = (Uniform, Masked, MaxCoupling, AbsorbingUniform, MaskedUniform)

    def check(self, model: Model) -> None:
        super().check(model)
        if self.through == "plug-in" and type(model.process) is not Uniform:
            raise ValueError(
                "the plug-in bridge of the leave-one-out posterior is for Uniform, "
                f"got {type(model.process).__name__}; leave `through` at model"
            )

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process = evaluate.process
        branch, token = two_numbers(noisy, generator)
        answer = evaluate(noisy).at(branch >= process.stay_bound(noisy, s), self._kind(evaluate.model))
        law = process.bridge(answer.noisy, answer.rows(s), answer.posterior)
        return process.arrive(noisy, answer.draw_from(law, noisy.tokens, branch, token), s)

    def _kind(self, model: Model) -> type[OverTokens]:
        if self.through == "model":
            return natural(model)
        return LeaveOneOut if self.through == "plug-in" else Denoiser
