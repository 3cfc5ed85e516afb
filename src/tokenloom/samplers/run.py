r"""One run of a sampler, step by step.

    prior at t = 1  ->  [ predictor t -> s, then the corrector at s ] over the grid  ->  tokens at t = 0

The run owns the time grid, given positions and random numbers.  What a user passes is checked when a run is made; its
steps trust it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Score
from tokenloom.samplers.beginning import device_of, first_state, steps_done
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.given import GivenTokens, HeldPositions, prompt_tokens
from tokenloom.samplers.results import Samples, Step
from tokenloom.samplers.stopping import Stopping, Until
from tokenloom.state import Noisy

if TYPE_CHECKING:
    from tokenloom.samplers.sampler import Sampler


@dataclass(frozen=True)
class Asked:
    """What is to be drawn, beside the model and the sampler; the arguments of `Sampler.run`."""

    batch: int
    length: int | None = None
    given: GivenTokens | None = None
    prompt: str | None = None
    generator: Randomness | None = None
    until: Until | None = None
    begin: Noisy | None = None


class Run:
    """The steps of a run as an iterator, and what has been drawn so far.

    Args:
        sampler: The sampler, with a predictor that suits the model.
        model: The model to sample.
        asked: What is to be drawn.
    """

    def __init__(self, sampler: "Sampler", model: Model, asked: Asked) -> None:
        length = _length(model, asked)
        given = prompt_tokens(model, asked.prompt, length) if asked.prompt is not None else asked.given
        model = sampler.predictor.prepare(model)
        _check(sampler, model, asked)
        device = device_of(model, asked.generator)
        noisy = first_state(model, asked.batch, length, asked.begin, asked.generator, device)
        if model.predicts is Score and bool((model.process.level(noisy) == 0).any()):
            raise ValueError(
                "at alpha_t = 0 every state has the same score, which says nothing of x_0; use a schedule that leaves "
                "some signal at t = 1, or a process without transition times"
            )
        self.sampler, self.generator = sampler, asked.generator
        self.times = sampler.times().to(device)
        self.hold = HeldPositions.make(model, given, noisy, sampler.show_given)
        self.stopping = None if asked.until is None else Stopping(asked.until, self.hold, noisy.tokens)
        self.evaluate = Evaluator(model, sampler.truncation, asked.batch, self.stopping)
        self.index = steps_done(self.times, asked.begin)
        self.memory: Any = sampler.predictor.begin(model.process, noisy, asked.generator)
        self.noisy = self.hold(noisy, asked.generator)

    def __iter__(self) -> Iterator[Step]:
        return self

    def __next__(self) -> Step:
        """Take a step of the predictor, and correct it unless it is the last."""
        done = self.stopping is not None and bool(self.stopping.done.all())
        if done or self.index + 1 >= len(self.times):
            self.evaluate.check()
            raise StopIteration
        before, s = self.noisy, self.times[self.index + 1].repeat(len(self.noisy.tokens))
        predictor, corrector, generator = self.sampler.predictor, self.sampler.corrector, self.generator
        noisy, self.memory = predictor.advance(self.evaluate, before, s, generator, self.memory)
        noisy, prediction = self.hold(noisy, generator), self.evaluate.last_at(before)
        self.index += 1
        if corrector is not None and self.index + 1 < len(self.times):
            corrected = self.hold(corrector.correct(self.evaluate, noisy, generator, self.index - 1), generator)
            self.memory = predictor.corrected(self.memory, corrected.tokens != noisy.tokens)
            noisy = corrected
        self.noisy = noisy
        return Step(self.index, len(self.times) - 1, before, noisy, prediction, self.evaluate.evaluations)

    @property
    def samples(self) -> Samples:
        """The tokens at the time that the run has come to, and what they cost."""
        self.evaluate.check()
        drawn = self.noisy.tokens
        tokens = drawn if self.stopping is None else self.stopping.result(drawn)
        return Samples(tokens, self.evaluate.evaluations.cpu())


def _length(model: Model, asked: Asked) -> int:
    if asked.batch < 0:
        raise ValueError(f"batch must be a whole number, at least 0, got {asked.batch}")
    if asked.prompt is not None and asked.given is not None:
        raise ValueError("give prompt or given, not both")
    own = asked.begin.tokens.shape[1] if asked.begin is not None and asked.length is None else asked.length
    return length_of(model, own)


def _check(sampler: "Sampler", model: Model, asked: Asked) -> None:
    """Raise unless corrector and stopping fit the model."""
    if sampler.corrector is not None:
        if model.causal:
            raise ValueError("a causal model has no corrector: it does not see what follows a position")
        sampler.corrector.check(model)
    if asked.until is not None and model.causal:
        raise ValueError("until needs a model that predicts all positions at once, and a causal model does not")


def length_of(model: Model, length: int | None) -> int:
    """The length of a sequence: as asked for, else the model's own."""
    found = model.length if length is None else length
    if found is None:
        raise ValueError("this network does not say how long its sequences are; pass length")
    if found < 1:
        raise ValueError(f"length must be at least 1, got {found}")
    return found
