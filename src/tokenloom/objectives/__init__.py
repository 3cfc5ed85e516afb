"""Losses per token, one per file, and the bounds and likelihoods they make."""

from tokenloom.objectives.base import OBJECTIVES, Objective
from tokenloom.objectives.bound import Bound
from tokenloom.objectives.bound_with_cross_entropy import BoundWithCrossEntropy
from tokenloom.objectives.cross_entropy import CrossEntropy
from tokenloom.objectives.finite_step import FiniteStep, step_divergence
from tokenloom.objectives.jump_nelbo import JumpNELBO
from tokenloom.objectives.markov_nelbo import MarkovNELBO
from tokenloom.objectives.nelbo import NELBO
from tokenloom.objectives.next_token import NextToken
from tokenloom.objectives.prior_term import PriorTerm
from tokenloom.objectives.rate_nelbo import RateNELBO
from tokenloom.objectives.ratio_matching import RatioMatching
from tokenloom.objectives.score_entropy import ScoreEntropy

__all__ = [
    "NELBO",
    "OBJECTIVES",
    "Bound",
    "BoundWithCrossEntropy",
    "CrossEntropy",
    "FiniteStep",
    "JumpNELBO",
    "MarkovNELBO",
    "NextToken",
    "Objective",
    "PriorTerm",
    "RateNELBO",
    "RatioMatching",
    "ScoreEntropy",
    "step_divergence",
]
