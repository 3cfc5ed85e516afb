r"""A sampler as one value: a predictor, a corrector, a truncation and a budget.

`steps` is the budget of network evaluations per sequence, the correctors' included: n predictor steps with m corrector
steps between them cost n + (n - 1) m.  (At t = 0 there is no noise left to correct at.)  `run.py` runs it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.randomness import Randomness
from tokenloom.drawing.truncation import Truncation
from tokenloom.models.protocol import Model
from tokenloom.samplers.given import GivenTokens, ShowGiven
from tokenloom.samplers.grids import check_grid, times_of_run
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS, Corrector, Predictor, restore
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.samplers.predictors.autoregressive import Autoregressive
from tokenloom.samplers.run import OnStep, Run, Samples
from tokenloom.samplers.stopping import Until
from tokenloom.state import Noisy
from tokenloom.support.typed import check_type, checked
from tokenloom.support.words import counted, nearest
from tokenloom.types import Tokens

Grid = str | Sequence[float] | Float[Tensor, "times"]
"""A named grid, or the times themselves."""


class Steps(int):
    """The budget of a sampler: a number, which is called to take the steps one by one."""

    sampler: "Sampler"

    def __get__(self, sampler: "Sampler | None", owner: type | None = None) -> "Steps":
        if sampler is None:
            return self
        bound = Steps(vars(sampler)["steps"])
        bound.sampler = sampler
        return bound

    def __set__(self, sampler: "Sampler", value: int) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"steps must be a whole number, got {value!r}")
        vars(sampler)["steps"] = value

    @checked
    def __call__(
        self,
        model: Model,
        batch: int,
        *,
        length: int | None = None,
        given: GivenTokens | None = None,
        prompt: str | Sequence[str] | None = None,
        generator: Randomness | None = None,
        until: Until | None = None,
        begin: Noisy | None = None,
    ) -> Run:
        """Take the steps of a run one by one, as in `for step in sampler.steps(model, 8)`; `break` ends it.

        The arguments are those of `Sampler.run`; `samples` of what is returned is what has been drawn so far.
        """
        if not hasattr(self, "sampler"):
            raise ValueError("steps are those of a sampler, as in tl.Sampler().steps(model, 8), not of the class")
        return Run(self.sampler.for_model(model), model, batch, length, given, prompt, generator, until, begin)


if not TYPE_CHECKING:  # noqa: SIM108
    Budget = int  # what is passed; a type checker infers from the descriptor what is passed and what is read
else:
    Budget = Steps


@dataclass(frozen=True)
class Sampler(Truncation):
    """All settings of sampling as one value; those of `Truncation` are keywords."""

    predictor: Predictor = field(default_factory=Ancestral)
    """The kernel that steps from t down to s."""
    corrector: Corrector | None = None
    """The kernel that acts after each step but the last, or none."""
    steps: Budget = field(default=Steps(128), kw_only=True)
    """The budget of network evaluations per sequence, the corrector's included."""
    grid: Grid = field(default="auto", kw_only=True)
    """The times of the steps: `auto`, which suits model and sampler, `uniform`, `cosine`, `power:1.5` (the larger the
    number, the denser near t = 0), `information`, `fitted` (by `tokenloom fit-grid`), or in Python all times from 1 to
    0."""
    show_given: ShowGiven = field(default="auto", kw_only=True)
    """The way given tokens are shown: `clean` to models that know given positions and under processes whose clean
    tokens show, else `noised` to the current level at every step; `auto` chooses."""

    def __post_init__(self) -> None:
        for name, value, kind in (("predictor", self.predictor, Predictor), ("corrector", self.corrector, Corrector)):
            if isinstance(value, str):
                raise ValueError(
                    f"{name} must be a {kind.__name__}, got {value!r}; use Sampler.parse, which takes text"
                )
        super().__post_init__()
        if self.steps < 1:
            raise ValueError(f"steps must be a whole number, at least 1, got {self.steps}")
        if isinstance(self.grid, str):
            check_grid(self.grid)
            self._count()
        else:
            object.__setattr__(self, "grid", tuple(self._own_times().tolist()))

    @classmethod
    @checked
    def parse(cls, text: str, **settings: Any) -> "Sampler":
        """Read a predictor, and a corrector after a plus sign, as in `psi:kappa=0.9 + informed`."""
        name, _, added = (part.strip() for part in text.partition("+"))
        known = [item.name for item in fields(cls) if item.name != "predictor"]
        for key in settings:
            if key not in known:
                raise ValueError(f"a sampler has no setting {key!r}; {nearest(key, known)}")
        corrector = settings.pop("corrector", None)
        if added and corrector not in (None, "none"):
            raise ValueError(f"the sampler {text!r} names its corrector already, got corrector={corrector!r} too")
        named = added or corrector
        if isinstance(named, str):
            named = None if named == "none" else CORRECTORS.parse(named)
        return cls(PREDICTORS.parse(name), named, **settings)

    @property
    def truncation(self) -> Truncation | None:
        """The truncation of every prediction; None where it keeps all."""
        own = {item.name: getattr(self, item.name) for item in fields(Truncation)}
        return None if self.changes_nothing else Truncation(**own)

    def record(self) -> dict[str, Any]:
        """Return everything that decides what is drawn, beside model and seed, as JSON."""
        return {
            "predictor": self.predictor.record(),
            "corrector": None if self.corrector is None else self.corrector.record(),
            "truncation": super().record(),
            "steps": int(self.steps),
            "grid": self.grid if isinstance(self.grid, str) else list(self.grid),
            "show_given": self.show_given,
        }

    @classmethod
    def restore(cls, record: dict[str, Any]) -> "Sampler":  # type: ignore[override]
        """Build a sampler from its record, the inverse of `record`."""
        corrector = None if record["corrector"] is None else restore(CORRECTORS, record["corrector"])
        settings = {name: record[name] for name in ("steps", "grid", "show_given")}
        truncation = vars(Truncation.restore(record["truncation"]))
        return cls(restore(PREDICTORS, record["predictor"]), corrector, **settings, **truncation)

    def times(self, model: Model) -> Float[Tensor, "times"]:
        """Return the times of a run of a model, from 1 down to 0: those given, or as many as the budget allows."""
        check_type("model", model, Model)
        if not isinstance(self.grid, str):
            return self._own_times()
        heuristic = self.grid == "auto" and not self.predictor.exact  # which may count steps by their times
        return times_of_run("uniform" if heuristic else self.grid, self._count(), model)

    def _own_times(self) -> Float[Tensor, "times"]:
        """Return the times that were given as such, or raise unless they are a grid."""
        times = torch.as_tensor(self.grid, dtype=torch.float64)
        falls = times.ndim == 1 and len(times) > 1 and bool((times.diff() < 0).all())
        if not falls or times[0] != 1 or times[-1] != 0:
            raise ValueError(f"a grid is a vector of times that falls from 1 to 0, got {times.tolist()}")
        return times

    def _count(self) -> int:
        """Return the number of predictor steps that the budget allows."""
        extra = 0 if self.corrector is None else self.corrector.evaluations
        if extra and self.steps < 2 + extra:
            raise ValueError(
                f"the corrector takes up to {counted(extra, 'evaluation')} between two steps, so a run needs at least "
                f"{2 + extra} evaluations, got steps={self.steps}; allow more, or correct less"
            )
        return (self.steps + extra) // (1 + extra)

    def check(self, model: Model) -> Model:
        """Raise unless predictor and corrector can run the model; return it as the predictor runs it."""
        prepared = self.for_model(model).predictor.prepare(model)
        if self.corrector is not None:
            if prepared.causal:
                raise ValueError("a causal model has no corrector: it does not see what follows a position")
            self.corrector.check(prepared)
        return prepared

    def for_model(self, model: Model) -> "Sampler":
        """Return this sampler, or for a causal model the only one there is."""
        if model.causal and self.predictor == Ancestral():
            return replace(self, predictor=Autoregressive())
        return self

    @checked
    def run(
        self,
        model: Model,
        batch: int,
        *,
        length: int | None = None,
        given: GivenTokens | None = None,
        prompt: str | Sequence[str] | None = None,
        generator: Randomness | None = None,
        on_step: OnStep | None = None,
        until: Until | None = None,
        begin: Noisy | None = None,
    ) -> Samples:
        """Draw `batch` sequences, by taking all steps.

        Args:
            length: Positions of each; the model's own if None.
            given: Given tokens and the flags of their positions, [batch, length] or one [length] for all.
            prompt: A text that every sequence begins with, for a model with a tokenizer.
            generator: The source of random numbers; with `RowGenerators` a row does not depend on its batch.
            until: Stops a row as soon as its most probable sequence is good: a function of sequences, or a rule such as
                `tl.samplers.Stable()`; it is then no longer a draw from the model.
            begin: Starts at this state, with the steps of the grid below its time, instead of at the prior.
        """
        run = Run(self.for_model(model), model, batch, length, given, prompt, generator, until, begin)
        for step in run:
            if on_step is not None:
                on_step(step)
        return run.samples


@checked
def sample(
    model: Model,
    batch: int,
    *,
    sampler: Sampler | Predictor | str = "ancestral",
    length: int | None = None,
    given: GivenTokens | None = None,
    prompt: str | Sequence[str] | None = None,
    generator: Randomness | None = None,
    on_step: OnStep | None = None,
    **settings: Any,
) -> Tokens:
    """Draw sequences in one call; `Sampler` holds the settings as one value, and its `run` also says what they cost.

    The arguments that are not named here are those of `Sampler.run`.

    Args:
        sampler: A sampler by name, as in `psi:kappa=0.9 + informed`, a predictor, or a whole `Sampler`.
        **settings: Fields of `Sampler`, such as `steps`, `top_p`, `temperature` or `corrector`.
    """
    if isinstance(sampler, Sampler):
        if settings:
            raise ValueError(
                f"a Sampler holds all settings; change them with dataclasses.replace, got {', '.join(settings)} too"
            )
        chosen = sampler
    elif isinstance(sampler, str):
        chosen = Sampler.parse(sampler, **settings)
    else:
        chosen = replace(Sampler.parse("ancestral", **settings), predictor=sampler)
    run = chosen.run(model, batch, length=length, given=given, prompt=prompt, generator=generator, on_step=on_step)
    return run.tokens
