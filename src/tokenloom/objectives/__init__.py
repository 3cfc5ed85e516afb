"""Losses per token, and the bounds and likelihoods they make."""

from tokenloom.objectives.base import OBJECTIVES as OBJECTIVES
from tokenloom.objectives.base import Objective as Objective
from tokenloom.objectives.continuous_time import JumpNELBO as JumpNELBO
from tokenloom.objectives.continuous_time import MarkovNELBO as MarkovNELBO
from tokenloom.objectives.continuous_time import RateNELBO as RateNELBO
from tokenloom.objectives.continuous_time import ScoreEntropy as ScoreEntropy
from tokenloom.objectives.cross_entropy import CrossEntropy as CrossEntropy
from tokenloom.objectives.cross_entropy import NextToken as NextToken
from tokenloom.objectives.cross_entropy import RatioMatching as RatioMatching
from tokenloom.objectives.finite_step import FiniteStep as FiniteStep
from tokenloom.objectives.finite_step import step_divergence as step_divergence
from tokenloom.objectives.nelbo import NELBO as NELBO
from tokenloom.objectives.nelbo import Bound as Bound
from tokenloom.objectives.nelbo import BoundWithCrossEntropy as BoundWithCrossEntropy
from tokenloom.objectives.nelbo import PriorTerm as PriorTerm
