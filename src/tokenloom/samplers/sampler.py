r"""A sampler as one value, and the driver that runs it.

    prior at t = 1  ->  [ predictor t -> s, then m corrector steps at s ] over the grid  ->  tokens at t = 0

The driver owns the time grid, given positions, truncation, seeds and callbacks.  `steps` is the budget of network
evaluations per sequence, the correctors' included: n predictor steps with m corrector steps between them cost
n + (n - 1) m.  (At t = 0 there is no noise left to correct at.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.randomness import Randomness
from tokenloom.drawing.truncation import Truncation
from tokenloom.models.evaluating import evaluating
from tokenloom.models.protocol import Model
from tokenloom.posteriors import LeaveOneOut, OverTokens
from tokenloom.samplers.beginning import device_of, first_state, steps_done
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.given import GivenTokens, HeldPositions, ShowGiven, prompt_tokens
from tokenloom.samplers.grids import Grid, time_grid
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS, Corrector, Predictor, restore
from tokenloom.samplers.results import OnStep, Samples, Step
from tokenloom.samplers.stopping import Stopping, Until
from tokenloom.state import Noisy
from tokenloom.support.typed import check_fields, checked


@dataclass(frozen=True)
class Sampler:
    """All settings of sampling as one value.

    Raises:
        ValueError: If a kernel is given as text, or `times` refuses the budget or the grid.
    """

    predictor: Predictor = field(default_factory=lambda: PREDICTORS.parse("ancestral"))
    """The kernel that steps from t down to s."""
    corrector: Corrector | None = None
    """The kernel that acts after each step but the last; None for none."""
    truncation: Truncation | None = None
    """What is kept of every prediction; None keeps all."""
    steps: int = 128
    """The budget of network evaluations per sequence, the corrector's included."""
    grid: Grid = "uniform"
    """Where the times lie: `uniform`, `cosine`, or the times themselves, from 1 down to 0."""
    show_given: ShowGiven = "auto"
    """How given tokens are shown: `clean` to models that know given positions and under processes whose clean tokens
    show, else `noised` to the current level at every step; `auto` chooses."""

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
        """The value that these settings stand for.

        Args:
            sampler: A predictor by name, as in `psi:kappa=0.9` or `psi + informed`, or as an object; or a whole
                `Sampler`, which takes no setting beside it.
            corrector: By name or as an object.
            truncation: What is kept of every prediction; the last five are short for one.
            steps: The budget of network evaluations per sequence.
            grid: `uniform`, `cosine`, or the times themselves.
            show_given: `auto`, `clean` or `noised`.
            temperature: Below 1 sharper, above 1 flatter.
            top_p: Mass of the most probable tokens that are kept, in (0, 1].
            top_k: How many of the most probable tokens are kept.
            on: The representation that is truncated; the leave-one-out posterior if None.
            forbid: Token ids never drawn from a prediction.

        Returns:
            The sampler.

        Raises:
            ValueError: If a name is unknown, a value outside its range, or a setting is given twice.
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
        """A sampler from text: a predictor, and a corrector after a plus sign, as in `psi:kappa=0.9 + informed`.

        Args:
            text: As on the command line.
            steps: The budget of network evaluations per sequence.

        Returns:
            The sampler.

        Raises:
            ValueError: If a name or an option is unknown.
        """
        return cls.of(text, steps=steps)

    def record(self) -> dict[str, Any]:
        """Everything that decides what is drawn beside model and seed, as JSON.

        Returns:
            JSON values, for `restore`.
        """
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
        """The inverse of `record`.

        Args:
            record: What `record` gave.

        Returns:
            The same sampler.

        Raises:
            ValueError: If a kernel or an option in it is unknown.
        """
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
        """The times of the run, from 1 down to 0, within the budget.

        Returns:
            Decreasing times, float64.

        Raises:
            ValueError: If the budget is too small for the corrector, or the grid does not fall from 1 to 0.
        """
        extra = 0 if self.corrector is None else self.corrector.evaluations
        if extra and isinstance(self.grid, str) and self.steps < 2 + extra:
            raise ValueError(
                f"{extra} corrector steps act between two steps of the sampler, which takes at least {2 + extra} "
                f"evaluations, got steps={self.steps}; allow more, or correct less"
            )
        return time_grid(self.grid, (self.steps + extra) // (1 + extra))

    def for_model(self, model: Model) -> "Sampler":
        """This sampler, or for a causal model the only one there is.

        Args:
            model: The model to sample.

        Returns:
            The sampler that `run` uses.
        """
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
        until: Until | None = None,
        begin: Noisy | None = None,
    ) -> Samples:
        """Draw sequences.

        Args:
            model: The model to sample.
            batch: How many sequences.
            length: Positions of each; the model's own if None.
            given: Given tokens and the flags of their positions, [batch, length] or one [length] for all.
            prompt: A text that every sequence begins with, for a model with a tokenizer.
            generator: Where random numbers come from; with `RowGenerators` a row does not depend on its batch.
            on_step: Called after every step.
            until: Stops a row as soon as its most probable sequence is good; see `stopping.py`.
            begin: Starts at this state, with the steps of the grid below its time, instead of at the prior.

        Returns:
            The tokens, and the network evaluations of each row.

        Raises:
            ValueError: If the sampler cannot run the model, or what is given does not fit it.
        """
        if batch < 0:
            raise ValueError(f"batch must be a whole number, at least 0, got {batch}")
        own = begin.tokens.shape[1] if begin is not None and length is None else length
        settings, length = self.for_model(model), length_of(model, own)
        predictor, corrector = settings.predictor, settings.corrector
        device = device_of(model, generator)
        if prompt is not None:
            if given is not None:
                raise ValueError("give prompt or given, not both")
            given = prompt_tokens(model, prompt, length)
        model = predictor.prepare(model)
        if corrector is not None:
            if model.causal:
                raise ValueError("a causal model has no corrector: it does not see what follows a position")
            corrector.check(model)
        if until is not None and model.causal:
            raise ValueError("until needs a model that predicts all positions at once, and a causal model does not")
        times = settings.times().to(device)
        with evaluating(model):
            noisy = first_state(model, batch, length, begin, generator, device)
            hold = HeldPositions.make(model, given, noisy, settings.show_given)
            stopping = None if until is None else Stopping(until, hold, noisy.tokens)
            evaluate = Evaluator(model, settings.truncation, batch, stopping)
            memory = predictor.begin(model.process, noisy, generator)
            noisy = hold(noisy, generator)
            for index in range(steps_done(times, begin), len(times) - 1):
                before, s = noisy, times[index + 1].repeat(batch)
                noisy, memory = predictor.advance(evaluate, noisy, s, generator, memory)
                noisy, prediction = hold(noisy, generator), evaluate.last_at(before)
                if corrector is not None and index + 2 < len(times):
                    corrected = hold(corrector.correct(evaluate, noisy, generator, index), generator)
                    memory = predictor.corrected(memory, corrected.tokens != noisy.tokens)
                    noisy = corrected
                if on_step is not None:
                    on_step(Step(index + 1, len(times) - 1, before, noisy, prediction))
                if stopping is not None and bool(stopping.done.all()):
                    break
        evaluate.check()
        tokens = noisy.tokens if stopping is None else stopping.result(noisy.tokens)
        return Samples(tokens, evaluate.evaluations.cpu())


def length_of(model: Model, length: int | None) -> int:
    """The length of a sequence: as asked for, else the model's own."""
    found = model.length if length is None else length
    if found is None:
        raise ValueError("this network does not say how long its sequences are; pass length")
    if found < 1:
        raise ValueError(f"length must be at least 1, got {found}")
    return found
