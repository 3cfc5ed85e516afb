"""What a run gives back: its samples, and on the way what each step did."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from tokenloom.samplers.evaluator import LazyPrediction
from tokenloom.state import Noisy
from tokenloom.types import Flags, Tokens


@dataclass(frozen=True)
class Step:
    """What a predictor step and its corrections did."""

    index: int
    """Steps done, from 1."""
    count: int
    """Steps of the run."""
    before: Noisy
    """The state that the step started from."""
    after: Noisy
    """The state after the step and its corrections."""
    prediction: LazyPrediction
    """The model's prediction at `before`; asking for more of it than the step did evaluates the network."""
    evaluations: Int[Tensor, "batch"]
    """Network evaluations of each row by then."""

    @property
    def tokens(self) -> Tokens:
        """The tokens after the step."""
        return self.after.tokens

    @property
    def time(self) -> float:
        """The time after the step, from 1 down to 0."""
        return float(self.after.t[0]) if len(self.after.t) else 0.0

    @property
    def changed(self) -> Flags:
        """Flags of the positions whose token changed."""
        return self.before.tokens != self.after.tokens


@dataclass(frozen=True)
class Samples:
    """Tokens, and what they cost."""

    tokens: Tokens
    """The sequences that were drawn."""
    evaluations: Int[Tensor, "batch"]
    """Network evaluations of each row; a step in which no position of a row moves costs it none."""


OnStep = Callable[[Step], None]
