r"""A sampler driven from outside: somebody else evaluates the network and asks for one step, or one correction.

    step i of n        x_t -> x_s,  t = 1 - i/n, s = 1 - (i+1)/n      logits at x_t
    correction of it   at x_s                                         logits at x_s, evaluated again

under uniform noise with alpha_t = 1 - t, so alpha = i/n before step i and 1 after the last, where nothing is left to
correct.  One call has one evaluation: a kernel that asks about any other state than the one whose logits are there is
refused by `check`, which takes two steps on a vocabulary of two.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.cells import Uniform
from tokenloom.drawing.randomness import Randomness, RowGenerators
from tokenloom.drawing.truncation import Truncation
from tokenloom.models.model import DiffusionModel
from tokenloom.posteriors import OverTokens
from tokenloom.samplers.evaluator import Evaluator, LazyPrediction
from tokenloom.samplers.sampler import Sampler
from tokenloom.schedules import LinearSchedule
from tokenloom.state import Noisy
from tokenloom.types import Tokens


class Answered(Evaluator):
    """An evaluator of one state, whose logits are there already."""

    def __init__(self, model: DiffusionModel[OverTokens], truncation: Truncation | None, noisy: Noisy, logits: Tensor):
        super().__init__(model, truncation, len(noisy.tokens), checks=False)
        self.answer = LazyPrediction(self, noisy, None, logits)

    def __call__(self, noisy: Noisy) -> LazyPrediction:
        """Return the prediction at the one state."""
        if noisy is not self.answer.noisy:
            raise ValueError(
                "it asks the network about a state of its own, but its caller evaluates the network, once per step; "
                "use a kernel that needs one evaluation, such as ancestral, or run it with tl.Sampler"
            )
        self.last = self.answer
        return self.last


class Answers(DiffusionModel[OverTokens]):
    """The model of a network that somebody else evaluates, on the device of its logits."""

    def __init__(self, vocab_size: int, predicts: type[OverTokens], device: torch.device) -> None:
        process = Uniform(vocab_size, schedule=LinearSchedule(eps=0.0))
        super().__init__(_evaluated_elsewhere, process, predicts=predicts)
        self._device = device

    @property
    def device(self) -> torch.device:
        """The device of the logits."""
        return self._device


def _evaluated_elsewhere(tokens: Tokens, time: Tensor) -> Tensor:
    raise ValueError("the caller evaluates the network")


@dataclass(frozen=True)
class Memory:
    """The memory of a predictor between two steps, and the tokens that it left."""

    index: int
    """The step that comes next."""
    tokens: Tokens
    """The tokens after the last step; others at the next one were changed by somebody else."""
    of_predictor: Any
    """The predictor's own memory."""


@dataclass(frozen=True)
class DrivenSampler:
    """Predictor, corrector and truncation of a sampler, one evaluation at a time."""

    sampler: Sampler
    predicts: type[OverTokens]
    """The posterior that the logits are."""

    def check(self) -> None:
        """Raise unless predictor and corrector can be driven, by taking both steps of two."""
        model = Answers(2, self.predicts, torch.device("cpu"))
        if self.sampler.check(model) is not model:
            name = self.sampler.predictor.name
            raise ValueError(f"{name} runs a model under a process of its own, which is not {model.process.title} here")
        logits, generator = torch.zeros(2, 2, 2), torch.Generator().manual_seed(0)
        for name, kernel in (("sampler", self.sampler.predictor), ("corrector", self.sampler.corrector)):
            tokens, memory = torch.tensor([[0, 1], [1, 0]]), None
            try:
                for index in range(2):
                    if name == "sampler":
                        tokens, memory = self.step(logits, tokens, index, 2, generator, memory)
                    elif kernel is not None:
                        tokens = self.correct(logits, tokens, index, 2, generator, 0)
            except ValueError as error:
                raise ValueError(f"the {name} {kernel.name if kernel else None} cannot be used here: {error}") from None

    def at_temperature(self, temperature: float) -> "DrivenSampler":
        """Return the same sampler at another temperature."""
        return replace(self, sampler=replace(self.sampler, temperature=temperature))

    def step(
        self,
        logits: Float[Tensor, "batch length vocab"],
        tokens: Tokens,
        index: int,
        count: int,
        generator: Randomness | None,
        memory: Memory | None = None,
    ) -> tuple[Tokens, Memory]:
        """Take step `index` of `count` from the tokens that the logits were computed at."""
        evaluate = self._answered(logits, tokens, index, count)
        process, noisy, predictor = evaluate.process, evaluate.answer.noisy, self.sampler.predictor
        if memory is None or memory.index != index or memory.tokens.shape != tokens.shape:
            own = predictor.begin(process, noisy, generator)
        else:
            own = predictor.corrected(memory.of_predictor, memory.tokens != tokens)
        s = torch.full_like(noisy.t, (count - index - 1) / count)
        arrived, own = predictor.advance(evaluate, noisy, s, generator, own)
        evaluate.check()
        return arrived.tokens, Memory(index + 1, arrived.tokens, own)

    def correct(
        self,
        logits: Float[Tensor, "batch length vocab"],
        tokens: Tokens,
        index: int,
        count: int,
        generator: Randomness | None,
        call: int,
    ) -> Tokens:
        """Correct what step `index` of `count` left, once; `call` counts the corrections of a run."""
        if self.sampler.corrector is None or index + 1 == count:  # at t = 0 there is no noise to redraw
            return tokens
        evaluate = self._answered(logits, tokens, index + 1, count)
        corrected = self.sampler.corrector.once().correct(evaluate, evaluate.answer.noisy, generator, call)
        evaluate.check()
        return corrected.tokens

    def _answered(self, logits: Tensor, tokens: Tokens, index: int, count: int) -> Answered:
        model = Answers(logits.shape[-1], self.predicts, logits.device)
        t = torch.full((len(tokens),), (count - index) / count, dtype=torch.float64, device=tokens.device)
        return Answered(model, self.sampler.truncation, Noisy(tokens, t, model.process.alpha(t)), logits)


def randomness_of(generator: torch.Generator | list[torch.Generator] | None, tokens: Tokens) -> Randomness | None:
    """Return the randomness of a generator, or of one per row, on the device of the tokens."""
    rows = generator if isinstance(generator, list) else [] if generator is None else [generator]
    for each in rows:
        if each.device.type != tokens.device.type:
            raise ValueError(f"the generator is on {each.device} but the tokens are on {tokens.device}; make one there")
    if not isinstance(generator, list):
        return generator
    if len(rows) != len(tokens):
        raise ValueError(f"there are generators for {len(rows)} rows, but the batch has {len(tokens)}")
    found = RowGenerators([], tokens.device)
    found.rows = rows
    return found
