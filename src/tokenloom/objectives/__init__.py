"""Losses a token, one a file."""

from tokenloom.objectives.base import Objective
from tokenloom.objectives.bound import bound_of
from tokenloom.objectives.cross_entropy import CrossEntropy
from tokenloom.objectives.finite_step import FiniteStep, step_divergence
from tokenloom.objectives.hybrid import Hybrid
from tokenloom.objectives.jump_nelbo import JumpNELBO
from tokenloom.objectives.next_token import NextToken
from tokenloom.objectives.prior_term import PriorTerm
from tokenloom.objectives.ratio_matching import RatioMatching
from tokenloom.objectives.score_entropy import ScoreEntropy
from tokenloom.objectives.uniform_nelbo import UniformNELBO

__all__ = [
    "CrossEntropy",
    "FiniteStep",
    "Hybrid",
    "JumpNELBO",
    "NextToken",
    "Objective",
    "PriorTerm",
    "RatioMatching",
    "ScoreEntropy",
    "UniformNELBO",
    "bound_of",
    "step_divergence",
]
