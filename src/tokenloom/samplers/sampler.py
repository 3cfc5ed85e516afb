r"""A sampler as one value, and the driver that runs it.

    prior at t = 1  ->  [ predictor t -> s, then m corrector steps at s ] over the grid  ->  tokens at t = 0

The driver owns the time grid, given positions, truncation, seeds and callbacks.  `steps` is the budget of network
evaluations per sequence, the correctors' included: n predictor steps with m corrector steps between them cost
n + (n - 1) m.  (At t = 0 there is no noise left to correct at.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tokenloom.drawing.randomness import Randomness
from tokenloom.drawing.truncation import Truncation
from tokenloom.models.model import Model, evaluating
from tokenloom.posteriors import LeaveOneOut, OverTokens
from tokenloom.samplers.evaluator import Evaluator, LazyPrediction
from tokenloom.samplers.given import GivenTokens, HeldPositions, ShowGiven, prompt_tokens
from tokenloom.samplers.grids import Grid, time_grid
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS, Corrector, Predictor, restore
from tokenloom.state import Noisy
from tokenloom.support.typed import check_fields, checked
from tokenloom.types import Flags, Tokens


@dataclass(frozen=True)
class Step:
    """What `on_step` sees after a predictor step and its corrections."""

    index: int
    """Steps done, from 1."""
    count: int
    before: Noisy
    after: Noisy
    prediction: LazyPrediction
    """The model's prediction at `before`; asking for more of it than the step did evaluates the network."""

    @property
    def changed(self) -> Flags:
        """Flags of the positions whose token changed."""
        return self.before.tokens != self.after.tokens


@dataclass(frozen=True)
class Samples:
    """Tokens, and what they cost."""

    tokens: Tokens
    evaluations: Int[Tensor, "batch"]
    """Network evaluations of each row; a step in which no position of a row moves costs it none."""


OnStep = Callable[[Step], None]


@dataclass(frozen=True)
class Sampler:
    """All settings of sampling as one value.

    `show_given` says how given tokens are shown: `clean` to models that know given positions and under processes whose
    clean tokens show, else `noised` to the current level at every step; `auto` chooses.
    """

    predictor: Predictor = field(default_factory=lambda: PREDICTORS.parse("ancestral"))
    corrector: Corrector | None = None
    truncation: Truncation | None = None
    steps: int = 128
    grid: Grid = "uniform"
    show_given: ShowGiven = "auto"

    def __post_init__(self) -> None:
        for name, value, kind in (("predictor", self.predictor, Predictor), ("corrector", self.corrector, Corrector)):
            if isinstance(value, str):
                raise ValueError(f"{name} must be a {kind.__name__}, got {value!r}; use Sampler.of, which takes names")
        check_fields(self)
        if self.steps < 1:
            raise ValueError(f"steps must be a whole number, at least 1, got {self.steps}")
        self.times()

    @classmethod
    @checked
    def of(
        cls,
        sampler: "Sampler | Predictor | str" = "ancestral",
        corrector: Corrector | str | None = None,
        *,
        truncation: Truncation | None = None,
        steps: int = 128,
        grid: Grid | Float[Tensor, "times"] = "uniform",
        show_given: ShowGiven = "auto",
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int | None = None,
        on: type[OverTokens] | None = None,
        forbid: Sequence[int] = (),
    ) -> "Sampler":
        """The value that these settings stand for; kernels by name, as in `psi:kappa=0.9`, or as objects.

        `temperature`, `top_p`, `top_k` and `forbid` (token ids never drawn from a prediction) are short for a
        `Truncation` `on` the leave-one-out posterior.  A `Sampler` has all settings already, and takes none beside it.
        """
        whole = sampler if isinstance(sampler, Sampler) else None
        if isinstance(sampler, Sampler):
            sampler = "ancestral"
        if isinstance(sampler, str):
            name, _, added = (part.strip() for part in sampler.partition("+"))
            if corrector is not None and added:
                raise ValueError(
                    f"the sampler {sampler!r} names its corrector already, got corrector={corrector!r} too"
                )
            corrector = added or corrector
            sampler = PREDICTORS.parse(name)
        if isinstance(corrector, str):
            corrector = None if corrector == "none" else CORRECTORS.parse(corrector)
        asked = Truncation(temperature, top_p, top_k, LeaveOneOut if on is None else on, tuple(forbid))
        if truncation is not None and not asked.changes_nothing:
            raise ValueError("give truncation, or temperature, top_p, top_k and forbid, not both")
        chosen = asked if truncation is None else truncation
        times: Grid = tuple(grid.tolist()) if isinstance(grid, Tensor) else grid
        value = cls(sampler, corrector, None if chosen.changes_nothing else chosen, steps, times, show_given)
        if whole is not None and value != cls():
            raise ValueError("a Sampler holds all settings; change them with dataclasses.replace, not beside it")
        return value if whole is None else whole

    @classmethod
    @checked
    def parse(cls, text: str, steps: int = 128) -> "Sampler":
        """A sampler from text: a predictor, and a corrector after a plus sign, as in `psi:kappa=0.9 + informed`."""
        return cls.of(text, steps=steps)

    def record(self) -> dict[str, Any]:
        """Everything that decides what is drawn beside model and seed, as JSON."""
        truncation = self.truncation or Truncation()
        return {
            "predictor": self.predictor.record(),
            "corrector": None if self.corrector is None else self.corrector.record(),
            "truncation": truncation.record(),
            "steps": self.steps,
            "grid": self.grid if isinstance(self.grid, str) else list(self.grid),
            "show_given": self.show_given,
        }

    @classmethod
    def restore(cls, record: dict[str, Any]) -> "Sampler":
        """The inverse of `record`."""
        corrector = record["corrector"]
        grid: Grid = tuple(record["grid"]) if isinstance(record["grid"], list) else record["grid"]
        return cls.of(
            restore(PREDICTORS, record["predictor"]),
            None if corrector is None else restore(CORRECTORS, corrector),
            truncation=Truncation.restore(record["truncation"]),
            steps=record["steps"],
            grid=grid,
            show_given=record["show_given"],
        )

    def times(self) -> Float[Tensor, "times"]:
        """The times of the run, from 1 down to 0, within the budget."""
        extra = 0 if self.corrector is None else self.corrector.evaluations
        if extra and isinstance(self.grid, str) and self.steps < 2 + extra:
            raise ValueError(
                f"{extra} corrector steps act between two steps of the sampler, which takes at least {2 + extra} "
                f"evaluations, got steps={self.steps}; allow more, or correct less"
            )
        return time_grid(self.grid, (self.steps + extra) // (1 + extra))

    def for_model(self, model: Model) -> "Sampler":
        """This sampler, or for a causal model the only one there is."""
        if model.causal and self.predictor == PREDICTORS.parse("ancestral"):
            return replace(self, predictor=PREDICTORS.parse("autoregressive"))
        return self

    @torch.no_grad()  # not inference_mode, whose tensors no later training step could read
    @checked
    def run(
        self,
        model: Model,
        batch: int,
        *,
        length: int | None = None,
        given: GivenTokens | None = None,
        prompt: str | None = None,
        generator: Randomness | None = None,
        on_step: OnStep | None = None,
    ) -> Samples:
        """Draw sequences; `given` are given tokens and the flags of their positions, `prompt` a text to begin with."""
        if batch < 0:
            raise ValueError(f"batch must be a whole number, at least 0, got {batch}")
        settings, length = self.for_model(model), length_of(model, length)
        predictor, corrector = settings.predictor, settings.corrector
        device = _device(model, generator)
        if prompt is not None:
            if given is not None:
                raise ValueError("give prompt or given, not both")
            given = prompt_tokens(model, prompt, length)
        model = predictor.prepare(model)
        if corrector is not None:
            if model.causal:
                raise ValueError("a causal model has no corrector: it does not see what follows a position")
            corrector.check(model)
        times = settings.times().to(device)
        evaluate = Evaluator(model, settings.truncation, batch)
        with evaluating(model):
            noisy = model.process.prior(batch, length, generator, device)
            hold = HeldPositions.make(model, given, noisy, settings.show_given)
            memory = predictor.begin(model.process, noisy, generator)
            noisy = hold(noisy, generator)
            for index in range(len(times) - 1):
                before, s = noisy, times[index + 1].repeat(batch)
                noisy, memory = predictor.advance(evaluate, noisy, s, generator, memory)
                noisy, prediction = hold(noisy, generator), evaluate.last_at(before)
                if corrector is not None and times[index + 1] > 0:
                    corrected = hold(corrector.correct(evaluate, noisy, generator, index), generator)
                    memory = predictor.corrected(memory, corrected.tokens != noisy.tokens)
                    noisy = corrected
                if on_step is not None:
                    on_step(Step(index + 1, len(times) - 1, before, noisy, prediction))
        return Samples(noisy.tokens, evaluate.evaluations)


@checked
def sample(
    model: Model,
    batch: int,
    *,
    length: int | None = None,
    steps: int = 128,
    sampler: Sampler | Predictor | str = "ancestral",
    corrector: Corrector | str | None = None,
    truncation: Truncation | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    forbid: Sequence[int] = (),
    given: GivenTokens | None = None,
    prompt: str | None = None,
    generator: Randomness | None = None,
    on_step: OnStep | None = None,
) -> Tokens:
    """Draw sequences; `Sampler` holds the same settings as one value, and its `run` also says what they cost."""
    settings = Sampler.of(
        sampler,
        corrector,
        truncation=truncation,
        steps=steps,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        forbid=forbid,
    )
    drawn = settings.run(model, batch, length=length, given=given, prompt=prompt, generator=generator, on_step=on_step)
    return drawn.tokens


def length_of(model: Model, length: int | None) -> int:
    """The length of a sequence: as asked for, else the model's own."""
    found = model.length if length is None else length
    if found is None:
        raise ValueError("this network does not say how long its sequences are; pass length")
    if found < 1:
        raise ValueError(f"length must be at least 1, got {found}")
    return found


def _device(model: Model, generator: Randomness | None) -> torch.device:
    device = model.device
    if device is None:
        device = torch.device("cpu") if generator is None else generator.device
    if generator is not None and generator.device.type != device.type:
        raise ValueError(f"the generator is on {generator.device} but the model is on {device}; make one there")
    return device
