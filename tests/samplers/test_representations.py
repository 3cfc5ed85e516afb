"""Whatever a model predicts, a sampler draws the same: with one seed, the same tokens.

A kernel that took a denoiser for a leave-one-out posterior, or converted twice, would draw others (`eq:psi-sampler-
correct` and what follows it in the paper).
"""

from functools import cache
from typing import Any

import pytest
import torch

import tokenloom as tl
from tests.samplers.helpers import CELLS, P0, Cell, K, process_of, supported, table_times
from tokenloom.posteriors import Posterior
from tokenloom.samplers import CORRECTORS, PREDICTORS

ROWS = 100
pytestmark = pytest.mark.usefixtures("as_a_user")  # shape checks take most of the time of so small a run
EXTRA = ["ancestral:through=plug-in", "ancestral:through=marginalised", "mudm:resample=true", "remasking:schedule=loop"]
SAMPLERS: list[tuple[str, Cell, type[Posterior]]] = [
    (sampler, kind, predicts)
    for sampler in [*PREDICTORS, *EXTRA]
    for kind in supported(PREDICTORS[sampler.split(":")[0]], CELLS)
    for predicts in (tl.Denoiser, tl.Score)
    if "plug-in" not in sampler or predicts is tl.Score or not process_of(kind).reveals
]
AS_PREDICTED = ("ancestral", "euler", "tau-leaping", "gillespie", "greedy-tail")
"""These split the law into branches by what the model predicts, unless a token says all or nothing of x_0: the same law
(`test_one_step.py`, where each is tested with both), other tokens."""
SPLIT = [
    case
    for case in SAMPLERS
    if case[0] in AS_PREDICTED and case[2] is tl.Denoiser and not process_of(case[1]).all_or_nothing
]
TIMED: list[Cell] = [tl.MaskedUniform, table_times]
SILENT = [case for case in SAMPLERS if case[2] is tl.Score and (case[1] in TIMED or case[0].startswith("mudm"))]
"""Given its times, a token has lost everything or nothing, and a score says nothing of x_0."""
CORRECTED: list[tuple[str, Cell, type[Posterior]]] = [
    (corrector, kind, predicts)
    for corrector, kernel in CORRECTORS.items()
    for kind in supported(kernel, CELLS)
    for predicts in (tl.Denoiser, tl.Score)
    if corrector != "forward-backward" or predicts is tl.Score or process_of(kind).all_or_nothing
]
"""Without forward-backward where its way back, an ancestral step, is split by what the model predicts."""


@cache
def draw(kind: Cell, predicts: type[Posterior], sampler: str, corrector: str | None = None) -> torch.Tensor:
    """The default schedule leaves 1e-3 of the signal at t = 1, so that a score says something there too."""
    steps = 5 if corrector is None else 9
    model = tl.Oracle(P0, process_of(kind, schedule=tl.LinearSchedule()), predicts=predicts)
    rows, sampler = (8, "gillespie:floor=0.5") if sampler == "gillespie" else (ROWS, sampler)
    generator = torch.Generator().manual_seed(1)
    return tl.sample(model, rows, steps=steps, sampler=sampler, corrector=corrector, generator=generator)


@pytest.mark.parametrize(
    ("sampler", "kind", "predicts"), [case for case in SAMPLERS if case not in SPLIT and case not in SILENT]
)
def test_predictor_draws_the_same_tokens_from_every_representation(
    sampler: str, kind: Cell, predicts: type[Posterior]
) -> None:
    """A score is read as what the process prefers, which decides how the law is split."""
    split = predicts is tl.Score and sampler in AS_PREDICTED
    expected = process_of(kind).preferred if split else tl.LeaveOneOut
    assert torch.equal(draw(kind, predicts, sampler), draw(kind, expected, sampler))


@pytest.mark.parametrize(("sampler", "kind", "predicts"), SPLIT)
def test_predictor_splits_its_law_by_the_prediction(sampler: str, kind: Cell, predicts: type[Posterior]) -> None:
    assert not torch.equal(draw(kind, predicts, sampler), draw(kind, tl.LeaveOneOut, sampler))


@pytest.mark.asks
@pytest.mark.parametrize(("sampler", "kind", "predicts"), SILENT)
def test_a_score_given_transition_times_is_refused(sampler: str, kind: Cell, predicts: type[Posterior]) -> None:
    with pytest.raises(ValueError, match="says nothing of x_0"):
        draw(kind, predicts, sampler)


@pytest.mark.parametrize(("corrector", "kind", "predicts"), CORRECTED)
def test_corrector_draws_the_same_tokens_from_every_representation(
    corrector: str, kind: Cell, predicts: type[Posterior]
) -> None:
    sampler = "ancestral:through=marginalised"
    expected = draw(kind, tl.LeaveOneOut, sampler, corrector)
    assert torch.equal(draw(kind, predicts, sampler, corrector), expected)
    assert not torch.equal(draw(kind, tl.LeaveOneOut, sampler), expected)


def test_a_denoiser_passed_off_as_leave_one_out_draws_other_tokens() -> None:
    """The same logits under a wrong name: what the type protects from."""
    honest = tl.Oracle(P0, tl.Uniform(K), predicts=tl.Denoiser)
    mislabelled: Any = tl.Oracle(P0, tl.Uniform(K), predicts=tl.Denoiser)
    mislabelled.interpret = lambda logits, noisy: tl.LeaveOneOut(logits)
    first, second = (
        tl.sample(model, ROWS, steps=5, generator=torch.Generator().manual_seed(1)) for model in (honest, mislabelled)
    )
    assert (first != second).any(1).double().mean() > 0.1
