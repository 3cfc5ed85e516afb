r"""The driver: it owns the time grid, given positions, truncation, seeds, progress and callbacks.

    prior at t = 1  ->  [ predictor t -> s, then m corrector steps at s ] over the grid  ->  tokens at t = 0

`steps` is the budget of network evaluations a sequence, the correctors' included: n predictor steps with m corrector
steps between them cost n + (n - 1) m.  (At t = 0 there is no noise left to correct at.)
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from rich.console import Console
from rich.progress import track
from torch import Tensor, nn

from tokenloom.model import DiffusionModel, architecture
from tokenloom.oracle import ExactModel
from tokenloom.randomness import Randomness
from tokenloom.samplers.autoregressive import Autoregressive
from tokenloom.samplers.evaluator import Evaluator, Model, Prediction
from tokenloom.samplers.given import Fixed, Given, Pin
from tokenloom.samplers.grids import GridName, time_grid
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS, Corrector, Predictor, make
from tokenloom.state import Noisy
from tokenloom.truncation import Truncation
from tokenloom.types import Flags, Tokens


@dataclass(frozen=True)
class Step:
    """What `on_step` sees after a predictor step and its corrections."""

    index: int
    """Steps done, from 1."""
    count: int
    before: Noisy
    after: Noisy
    prediction: Prediction
    """The model's prediction at `before`; asking for more of it than the step did evaluates the network."""

    @property
    def changed(self) -> Flags:
        """Positions whose token changed."""
        return self.before.tokens != self.after.tokens


@dataclass(frozen=True)
class Samples:
    """Tokens, and what they cost."""

    tokens: Tokens
    evaluations: Int[Tensor, "batch"]
    """Network evaluations of each row; a step in which no position of a row moves costs it none."""


def sample(
    model: Model,
    batch: int,
    length: int | None = None,
    steps: int = 128,
    predictor: Predictor | str = "ancestral",
    corrector: Corrector | str | None = None,
    truncation: Truncation | None = None,
    fixed: Fixed | None = None,
    generator: Randomness | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Tokens:
    """Draw sequences; `run_sampler` has more options and says what it cost."""
    return run_sampler(model, batch, length, steps, predictor, corrector, truncation, fixed, generator, on_step).tokens


@torch.no_grad()  # not inference_mode, whose tensors no later training step could read
def run_sampler(
    model: Model,
    batch: int,
    length: int | None = None,
    steps: int = 128,
    predictor: Predictor | str = "ancestral",
    corrector: Corrector | str | None = None,
    truncation: Truncation | None = None,
    fixed: Fixed | None = None,
    generator: Randomness | None = None,
    on_step: Callable[[Step], None] | None = None,
    grid: GridName | Float[Tensor, "times"] = "uniform",
    given: Given = "auto",
    progress: bool = False,
) -> Samples:
    """Draw sequences with a budget of `steps` evaluations each; a tensor of times as `grid` takes the place of `steps`.

    `fixed` are given tokens and the flags of their positions.  They are shown `clean` to models that know given
    positions and under processes whose clean tokens show, else `noised` to the current level at every step.
    `progress` shows a bar on standard error.
    """
    predictor = _predictor(model, predictor)
    corrector = make(corrector, CORRECTORS) if isinstance(corrector, str) else corrector
    if batch < 0:
        raise ValueError(f"batch must not be negative, got {batch}")
    length, device = _length(model, length), _device(model, generator)
    model = predictor.prepare(model)
    if corrector is not None:
        if model.causal:
            raise ValueError("a causal network has no corrector: it does not see what follows a position")
        corrector.check(model)
    times = time_grid(grid, 1 if isinstance(grid, Tensor) else _predictor_steps(steps, corrector)).to(device)
    evaluate = Evaluator(model, truncation, batch)
    with _evaluating(model):
        noisy = predictor.initial(model.process, batch, length, generator, device)
        pin = Pin.make(model, fixed, noisy, given)
        noisy = pin(noisy, generator)
        for index in _counted(len(times) - 1, progress):
            before, s = noisy, times[index + 1].repeat(batch)
            noisy = pin(predictor.step(evaluate, noisy, s, generator), generator)
            prediction = evaluate.last_at(before)
            if corrector is not None and times[index + 1] > 0:
                noisy = pin(corrector.correct(evaluate, noisy, generator, index), generator)
            if on_step is not None:
                on_step(Step(index + 1, len(times) - 1, before, noisy, prediction))
    return Samples(noisy.tokens, evaluate.evaluations)


def _counted(steps: int, progress: bool) -> Iterable[int]:
    return track(range(steps), "sampling", console=Console(stderr=True)) if progress else range(steps)


def _predictor(model: Model, predictor: Predictor | str) -> Predictor:
    if not model.causal:
        return make(predictor, PREDICTORS) if isinstance(predictor, str) else predictor
    if isinstance(predictor, Autoregressive) or predictor in ("ancestral", "autoregressive"):
        return Autoregressive()
    raise ValueError(f"a causal network is sampled from left to right (autoregressive), got the predictor {predictor}")


def _predictor_steps(steps: int, corrector: Corrector | None) -> int:
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"steps must be a whole number, at least 1, got {steps}")
    extra = 0 if corrector is None else corrector.evaluations
    if extra and steps < 2 + extra:
        raise ValueError(
            f"{extra} corrector steps act between two steps of the sampler, which takes at least {2 + extra} "
            f"evaluations, got steps={steps}; allow more, or correct less"
        )
    return (steps + extra) // (1 + extra)


def _length(model: Model, length: int | None) -> int:
    if isinstance(model, ExactModel):
        known: int | None = model.length
    else:
        inner = architecture(model.network)
        known = None if inner is None else inner.config.length
    if length is None and known is None:
        raise ValueError("this network does not say how long its sequences are; pass length")
    if length is not None and length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
    return known if length is None else length  # type: ignore[return-value]


def _device(model: Model, generator: Randomness | None) -> torch.device:
    tensor = next(model.parameters(), None) if isinstance(model, DiffusionModel) else model.table
    device = tensor.device if tensor is not None else generator.device if generator is not None else torch.device("cpu")
    if generator is not None and generator.device.type != device.type:
        raise ValueError(f"the generator is on {generator.device} but the model is on {device}; make one there")
    return device


@contextmanager
def _evaluating(model: Model) -> Iterator[None]:
    """Without dropout; every part of the model gets back the mode it was in."""
    modes = [(module, module.training) for module in model.modules()] if isinstance(model, nn.Module) else []
    for module, _ in modes:
        module.training = False
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
