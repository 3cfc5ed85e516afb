"""Objectives, networks and options that do not fit are refused with a sentence."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tokenloom.models.model import DiffusionModel
from tokenloom.objectives import (
    OBJECTIVES,
    BoundWithCrossEntropy,
    FiniteStep,
    Objective,
    PriorTerm,
    RatioMatching,
    ScoreEntropy,
    head_loss,
)
from tokenloom.posteriors import Posterior

K = 11
TABLE = tl.noise.Table(K, torch.full((3, K), 1 / K))
REFUSED: list[tuple[tl.Process, str | Objective, type[Posterior], str]] = [
    (tl.Uniform(K), "crm", tl.LeaveOneOut, "RatioMatching needs a hollow network"),
    (tl.AbsorbingUniform(K), "markov-nelbo", tl.Denoiser, "not a bound for AbsorbingUniform; .* Markov coupling"),
    (tl.MaxCoupling(K), "markov-nelbo", tl.Denoiser, "MarkovNELBO is not a bound for MaxCoupling"),
    (tl.Process(TABLE, tl.couplings.Maximal()), "markov-nelbo", tl.Denoiser, "Table noise, Maximal coupling"),
    (tl.Uniform(K), "jump-nelbo", tl.Denoiser, "JumpNELBO is not a bound for Uniform; .* jump once"),
    (tl.Hybrid(K), "jump-nelbo", tl.Denoiser, "JumpNELBO is not a bound for Hybrid"),
    (tl.MaskedUniform(K), "nelbo", tl.Score, "RateNELBO is not a bound for MaskedUniform"),
    (tl.LeftToRight(K), "nelbo", tl.LeaveOneOut, "is not a bound for LeftToRight"),
    (tl.MaskedUniform(K), "finite-step", tl.Denoiser, "FiniteStep is not a bound for MaskedUniform; given the times"),
    (tl.MaskedUniform(K), "rate-nelbo", tl.Denoiser, "RateNELBO is not a bound for MaskedUniform; it does not jump"),
    (tl.MaskedUniform(K), "crm", tl.LeaveOneOut, "RatioMatching is not a bound for MaskedUniform"),
    (tl.Masked(K), "crm", tl.LeaveOneOut, "RatioMatching is not a bound for Masked"),
    (tl.MaxCoupling(K), "score-entropy", tl.Score, "ScoreEntropy is not a bound for MaxCoupling"),
    (tl.AbsorbingUniform(K), "score-entropy", tl.Score, "ScoreEntropy is not a bound for AbsorbingUniform"),
    (tl.Process(TABLE), "score-entropy", tl.Score, "not a bound for Interpolating; .* uniform or masked noise"),
    (tl.Uniform(K), "score-entropy", tl.Denoiser, "predicts Score, got one that predicts Denoiser"),
    (tl.Uniform(K), BoundWithCrossEntropy(RatioMatching()), tl.LeaveOneOut, "RatioMatching needs a hollow network"),
    (tl.Uniform(K), BoundWithCrossEntropy(ScoreEntropy()), tl.Score, "CrossEntropy on Uniform trains .* Denoiser"),
    (tl.Uniform(K), "ce", tl.Score, "predicts Denoiser or LeaveOneOut, got one that predicts Score"),
    (tl.LeftToRight(K), "ce", tl.LeaveOneOut, "CrossEntropy does not fit a causal network"),
    (tl.Uniform(K), "next-token", tl.LeaveOneOut, "NextToken needs a causal network"),
]


@pytest.mark.parametrize(("process", "objective", "predicts", "sentence"), REFUSED)
def test_pairs_that_make_no_sense_are_refused(
    process: tl.Process, objective: str | Objective, predicts: type[Posterior], sentence: str
) -> None:
    objective = OBJECTIVES.parse(objective) if isinstance(objective, str) else objective
    model = DiffusionModel(lambda tokens, time: torch.zeros(*tokens.shape, K), process, predicts=predicts)
    with pytest.raises(ValueError, match=sentence):
        head_loss.training_loss(model, objective, torch.zeros(2, 3, dtype=torch.int64), torch.rand(2))


@pytest.mark.parametrize(
    ("logits", "sentence"),
    [
        (torch.zeros(2, 3, K + 3), r"logits of shape \[2, 3, 11\] for tokens of shape \[2, 3\], got \[2, 3, 14\]"),
        (torch.full((2, 3, K), torch.nan), "hold NaN"),
        (torch.zeros(2, 3, K, dtype=torch.int64), "logits must be a float tensor"),
    ],
)
def test_a_network_s_wrong_output_is_named(logits: Tensor, sentence: str, as_a_user: None) -> None:
    model = DiffusionModel(lambda tokens, time: logits, tl.Uniform(K))
    with pytest.raises(ValueError, match=sentence):
        head_loss.training_loss(model, OBJECTIVES.parse("ce"), torch.zeros(2, 3, dtype=torch.int64), torch.rand(2))


@pytest.mark.parametrize(
    ("make_objective", "sentence"),
    [
        (lambda: FiniteStep(0), "steps must be at least 1, got 0"),
        (lambda: BoundWithCrossEntropy(weight=-1.0), r"weight must be in \[0, inf\), got -1"),
    ],
)
def test_wrong_options_are_named(make_objective: Callable[[], Objective], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_objective()


def test_the_prior_term_of_masks_needs_more_than_a_score() -> None:
    term: Any = PriorTerm()
    with pytest.raises(ValueError, match="the prior term of Masked needs a network that predicts a Denoiser or"):
        term.check(tl.Masked(3), tl.Score)
    term.check(tl.Uniform(3), tl.Score)
    model = tl.Oracle(torch.full((3,), 1 / 3), tl.Masked(3))
    with pytest.raises(ValueError, match="objective must be an Objective, got PriorTerm"):
        tl.training_loss(model, term, torch.zeros(1, 1).long(), torch.ones(1))
