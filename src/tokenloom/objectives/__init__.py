"""Losses per token, and the bounds and likelihoods they make."""

from tokenloom.objectives.base import OBJECTIVES as OBJECTIVES
from tokenloom.objectives.base import Objective as Objective
from tokenloom.objectives.bound_with_cross_entropy import BoundWithCrossEntropy as BoundWithCrossEntropy
from tokenloom.objectives.cross_entropy import CrossEntropy as CrossEntropy
from tokenloom.objectives.finite_step import FiniteStep as FiniteStep
from tokenloom.objectives.finite_step import step_divergence as step_divergence
from tokenloom.objectives.jump_nelbo import JumpNELBO as JumpNELBO
from tokenloom.objectives.markov_nelbo import MarkovNELBO as MarkovNELBO
from tokenloom.objectives.nelbo import NELBO as NELBO
from tokenloom.objectives.nelbo import Bound as Bound
from tokenloom.objectives.next_token import NextToken as NextToken
from tokenloom.objectives.prior_term import PriorTerm as PriorTerm
from tokenloom.objectives.rate_nelbo import RateNELBO as RateNELBO
from tokenloom.objectives.ratio_matching import RatioMatching as RatioMatching
from tokenloom.objectives.score_entropy import ScoreEntropy as ScoreEntropy
