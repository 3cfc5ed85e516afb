r"""One run of a sampler, step by step, and what it gives back.

    prior at t = 1  ->  [ predictor t -> s, then the corrector at s ] over the grid  ->  tokens at t = 0

The run owns the time grid, given positions and random numbers.  What a user passes is checked when a run is made; its
steps trust it.  A run that is split at a step and continued from there (`begin`) is the same run: with a sampler that
remembers nothing between steps, and random numbers that resume where they were, it draws the same tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Int
from torch import Tensor

from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.posteriors import Score
from tokenloom.samplers.evaluator import Evaluator, LazyPrediction
from tokenloom.samplers.given import GivenTokens, HeldPositions
from tokenloom.samplers.stopping import Stopping, Until
from tokenloom.samplers.templates import prompt_tokens
from tokenloom.state import Noisy
from tokenloom.types import Flags, Tokens

if TYPE_CHECKING:
    from tokenloom.samplers.sampler import Sampler


@dataclass(frozen=True)
class Step:
    """A predictor step and its corrections."""

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


OnStep = Callable[[Step], None]


@dataclass(frozen=True)
class Samples:
    """Tokens, and what they cost."""

    tokens: Tokens
    """The sequences that were drawn."""
    evaluations: Int[Tensor, "batch"]
    """Network evaluations of each row; a step in which no position of a row moves costs it none."""


@dataclass(eq=False)
class Run:
    """The steps of a run as an iterator; `Sampler.steps` makes one, from the arguments of `Sampler.run`."""

    sampler: "Sampler"
    model: Model
    batch: int
    length: int | None = None
    given: GivenTokens | None = None
    prompt: str | Sequence[str] | None = None
    generator: Randomness | None = None
    until: Until | None = None
    begin: Noisy | None = None

    def __post_init__(self) -> None:
        sampler, begin, given = self.sampler, self.begin, self.given
        if self.batch < 0:
            raise ValueError(f"batch must be a whole number, at least 0, got {self.batch}")
        if self.prompt is not None and given is not None:
            raise ValueError("give prompt or given, not both")
        own = begin.tokens.shape[1] if begin is not None and self.length is None else self.length
        length = length_of(self.model, own)
        if self.prompt is not None:
            given = prompt_tokens(self.model, self.prompt, self.batch, length)
        model = sampler.check(self.model)
        if self.until is not None and model.causal:
            raise ValueError("until needs a model that predicts all positions at once, and a causal model does not")
        device = _device(model, self.generator)
        if begin is None:
            noisy = model.process.prior(self.batch, length, self.generator, device)
        else:
            _check_state(model, begin, [self.batch, length])
            noisy = begin.to(device)
        if model.predicts is Score and bool((model.process.level(noisy) == 0).any()):
            raise ValueError(
                "at alpha_t = 0 every state has the same score, which says nothing of x_0; use a schedule that leaves "
                "some signal at t = 1, or a process without transition times"
            )
        self.times = sampler.times(model).to(device)
        self.index = 0 if begin is None or not self.batch else int((self.times >= noisy.t[0]).sum()) - 1
        self.hold = HeldPositions.make(model, given, noisy, sampler.show_given)
        self.stopping = None
        if self.until is not None:
            self.stopping = Stopping(self.until, self.hold, noisy.tokens, sampler.predictor.temperature_at)
        self.evaluate = Evaluator(model, sampler.truncation, self.batch, self.stopping, checks=False)
        self.memory: Any = sampler.predictor.begin(model.process, noisy, self.generator)
        self.noisy = self.hold(noisy, self.generator)

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
        """The tokens at the time that the run has reached, and what they cost."""
        self.evaluate.check()
        drawn = self.noisy.tokens
        tokens = drawn if self.stopping is None else self.stopping.result(drawn)
        return Samples(tokens, self.evaluate.evaluations.cpu())


def length_of(model: Model, length: int | None) -> int:
    """Return the length asked for, else the model's own."""
    found = model.length if length is None else length
    if found is None:
        raise ValueError("this network does not say how long its sequences are; pass length")
    if found < 1:
        raise ValueError(f"length must be at least 1, got {found}")
    return found


def _device(model: Model, generator: Randomness | None) -> torch.device:
    """Return the device of the weights, which is where random numbers must be drawn."""
    device = model.device or (torch.device("cpu") if generator is None else generator.device)
    if device.type == "meta":
        raise ValueError("the model is on meta, where tensors hold no values; load its weights onto a device")
    if generator is not None and generator.device.type != device.type:
        raise ValueError(f"the generator is on {generator.device} but the model is on {device}; make one there")
    return device


def _check_state(model: Model, begin: Noisy, shape: list[int]) -> None:
    """Raise unless a run of this shape can begin at the state."""
    process = model.process
    if model.causal:
        raise ValueError("a causal model writes from left to right and has no state to begin at; pass a prompt")
    process.check_state(begin)
    if list(begin.tokens.shape) != shape:
        raise ValueError(f"the state to begin at has shape {list(begin.tokens.shape)}, but {shape} are to be sampled")
    if process.lifted != (begin.aux is not None):
        needs = "needs the auxiliary variable of its states" if process.lifted else "has no auxiliary variable"
        raise ValueError(f"{process.title} {needs}; begin at a state that a step of the same process gave")
    if bool((begin.t != begin.t[:1]).any()):
        raise ValueError(
            f"the rows to begin at must share one time, got {begin.t.min().item():g} to {begin.t.max().item():g}"
        )
