r"""Left to right, for a causal model, one evaluation per position, whatever `steps` says.

    x^l ~ p(. | x^1 .. x^{l-1}),      l = 1 .. L

The grid only says where the driver looks: at time t the first (1 - t) L positions are written
(`couplings/left_to_right.py`).  With an `end`, a row that has drawn it is done: it costs no more evaluations, and the
positions behind are filled with it, so that only what stands before has the law of the model.
"""

from dataclasses import dataclass

import torch

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.models.protocol import Model
from tokenloom.posteriors import LeaveOneOut
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.kernel import PREDICTORS, Predictor
from tokenloom.state import Noisy
from tokenloom.types import PerRow


@PREDICTORS.register("autoregressive")
@dataclass(frozen=True)
class Autoregressive(Predictor):
    """One position after the other."""

    end: int | None = None
    """The token that ends a row, such as the end of a document; None draws every position."""

    needs = "a causal model"

    @property
    def exact(self) -> bool:
        return self.end is None

    def check(self, model: Model) -> None:
        super().check(model)
        if self.end is not None and not 0 <= self.end < model.process.vocab_size:
            raise ValueError(f"end must be a token id in 0..{model.process.vocab_size - 1}, got {self.end}")

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.sequential

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        process, free = evaluate.process, noisy.free
        length = noisy.tokens.shape[1]
        first, last = (round(length * (1 - float(time[0]))) if len(time) else 0 for time in (noisy.t, s))
        for position in range(first, last):
            u = uniform(tuple(noisy.tokens.shape), generator, noisy.tokens.device)
            here, tokens = torch.zeros_like(free), noisy.tokens
            here[:, position] = free[:, position]
            if self.end is not None:  # an end that was given, as some models begin with, ends nothing
                ended = here & (free & (tokens == self.end))[:, :position].any(1, keepdim=True)
                here, tokens = here & ~ended, tokens.masked_fill(ended, self.end)
            local = evaluate(noisy).at(here, LeaveOneOut)
            noisy = process.move_to(noisy, local.draw(tokens, u), noisy.t)
        return process.move_to(noisy, noisy.tokens, s)
