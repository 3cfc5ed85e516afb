"""The bound of a model: the continuous-time bound of its process from what it predicts; exact for a causal network."""

from tokenloom.objectives.base import Objective
from tokenloom.objectives.jump_nelbo import JumpNELBO
from tokenloom.objectives.next_token import NextToken
from tokenloom.objectives.score_entropy import ScoreEntropy
from tokenloom.objectives.uniform_nelbo import UniformNELBO
from tokenloom.posteriors import Posterior, Score
from tokenloom.processes import MaskedUniform, MaxCoupling, Uniform
from tokenloom.processes.base import Process


def bound_of(process: Process, predicts: type[Posterior], causal: bool = False) -> Objective:
    """The objective whose mean over t, with `PriorTerm`, bounds the negative log-likelihood."""
    if causal:
        return NextToken()
    if predicts is Score:
        return ScoreEntropy()
    uniform = isinstance(process, Uniform) and not isinstance(process, MaxCoupling | MaskedUniform)
    return UniformNELBO() if uniform else JumpNELBO()
