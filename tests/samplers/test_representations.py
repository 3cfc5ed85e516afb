"""Whatever a model predicts, a sampler draws the same: with one seed, the same tokens.

A kernel that took a denoiser for a leave-one-out posterior, or converted twice, would draw others (`eq:psi-sampler-
correct` and what follows it in the paper).
"""

from functools import cache

import pytest
import torch

import tokenloom as tl
from tests.samplers.helpers import P0, K
from tokenloom.posteriors import Posterior
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS

ROWS = 500
EXTRA = ["ancestral:through=plug-in", "ancestral:through=marginalised", "mudm:resample=true", "remasking:schedule=loop"]
SAMPLERS = [
    (sampler, kind)
    for sampler in [*PREDICTORS, *EXTRA]
    for kind in PREDICTORS[sampler.split(":")[0]].serves
    if "plug-in" not in sampler or kind is tl.Uniform
]
AS_PREDICTED = ("ancestral", "euler", "tau-leaping", "gillespie", "greedy-tail")
"""Under UDM these split the law into branches by what the model predicts: the same law (`test_one_step.py`, where each
is tested with both), other tokens."""
CORRECTED = [(corrector, kind) for corrector, kernel in CORRECTORS.items() for kind in kernel.serves]


@cache
def draw(kind: type[tl.Process], predicts: type[Posterior], sampler: str, corrector: str | None = None) -> torch.Tensor:
    """The default schedule leaves 1e-3 of the signal at t = 1, so that a score says something there too."""
    steps = 5 if corrector is None else 9
    return tl.sample(
        tl.Oracle(P0, kind(K), predicts=predicts),
        ROWS if sampler != "gillespie" else 40,
        steps=steps,
        predictor=sampler if sampler != "gillespie" else "gillespie:floor=0.1",
        corrector=corrector,
        generator=torch.Generator().manual_seed(1),
    )


@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.Score])
@pytest.mark.parametrize(("sampler", "kind"), SAMPLERS)
def test_predictor_draws_the_same_tokens_from_every_representation(
    sampler: str, kind: type[tl.Process], predicts: type[Posterior]
) -> None:
    if (kind, predicts) == (tl.Uniform, tl.Denoiser) and sampler in AS_PREDICTED:
        assert not torch.equal(draw(kind, predicts, sampler), draw(kind, tl.LeaveOneOut, sampler))
    elif predicts is tl.Score and (kind is tl.MaskedUniform or sampler.startswith("mudm")):
        with pytest.raises(ValueError, match="says nothing of x_0"):
            draw(kind, predicts, sampler)
    else:
        assert torch.equal(draw(kind, predicts, sampler), draw(kind, tl.LeaveOneOut, sampler))


@pytest.mark.parametrize("predicts", [tl.Denoiser, tl.Score])
@pytest.mark.parametrize(("corrector", "kind"), CORRECTED)
def test_corrector_draws_the_same_tokens_from_every_representation(
    corrector: str, kind: type[tl.Process], predicts: type[Posterior]
) -> None:
    if (kind, predicts, corrector) == (tl.Uniform, tl.Denoiser, "forward-backward"):
        return  # its way back is an ancestral step of what the model predicts
    sampler = "ancestral:through=marginalised"
    expected = draw(kind, tl.LeaveOneOut, sampler, corrector)
    assert torch.equal(draw(kind, predicts, sampler, corrector), expected)
    assert not torch.equal(draw(kind, tl.LeaveOneOut, sampler), expected)


def test_a_denoiser_passed_off_as_leave_one_out_draws_other_tokens() -> None:
    """The same logits under a wrong name: what the type protects from."""
    honest = tl.Oracle(P0, tl.Uniform(K), predicts=tl.Denoiser)
    mislabelled = tl.Oracle(P0, tl.Uniform(K), predicts=tl.Denoiser)
    mislabelled.interpret = lambda logits, noisy: tl.LeaveOneOut(logits)  # type: ignore[method-assign]
    first, second = (
        tl.sample(model, ROWS, steps=5, generator=torch.Generator().manual_seed(1)) for model in (honest, mislabelled)
    )
    assert (first != second).any(1).double().mean() > 0.1
