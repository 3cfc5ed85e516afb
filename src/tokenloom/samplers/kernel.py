"""The kernels of a sampler: predictors, which step from t down to s, and correctors, which act at a fixed time.

A kernel is a frozen dataclass of options with a pure step over a state.  `supports` asks a process for what the kernel
needs of it, and `exact` says whether its law is exact at these options in the limit of many steps.  A module in
`predictors/` or `correctors/` that registers its class is all it takes for the command line, the docs and the
conformance tests to know it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, ClassVar, TypeVar

import torch

from tokenloom.drawing import randomness
from tokenloom.drawing.randomness import Randomness, RowGenerators
from tokenloom.models.protocol import Model
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.state import Noisy
from tokenloom.support.checks import check_order, check_time
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields, check_type
from tokenloom.types import Flags, PerPosition, PerRow

Part = TypeVar("Part", bound="Kernel")


@dataclass(frozen=True)
class Kernel(ABC):
    """One algorithm with its options."""

    name: ClassVar[str]
    needs: ClassVar[str] = "a process with a bridge"
    """The end of the sentence "this sampler needs ...", said where `supports` is False."""

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def exact(self) -> bool:
        """True if, at these options, the law of its output tends to p_0 (a predictor) or p_t is left invariant (a
        corrector), given exact posteriors and factorised draws refined by many steps; False for heuristics."""
        return True

    @classmethod
    def supports(cls, process: Process) -> bool:
        """Return whether this kernel can run under the process."""
        return process.has_bridge

    def record(self) -> dict[str, Any]:
        """Return this kernel as JSON, with any kernel inside it."""
        options = self.registry().record(self)
        return {key: value.record() if isinstance(value, Kernel) else value for key, value in options.items()}

    @classmethod
    def registry(cls) -> "Registry[Any]":
        """Return the registry of kernels of this role."""
        return PREDICTORS if issubclass(cls, Predictor) else CORRECTORS

    def check(self, model: Model) -> None:
        """Raise unless this kernel can run the model."""
        process = model.process
        if self.supports(process):
            return
        registry = self.registry()
        able = [name for name in registry if registry[name].supports(process)]
        wanted = "a model that sees every position" if process.sequential else self.needs
        raise ValueError(
            f"{self.name} needs {wanted}, but the model's process is {process.title}; "
            + (f"use {', '.join(able)}" if able else f"there is no {registry.kind} for it")
        )


class InDoubt(Kernel):
    """A kernel of processes in which every token leaves some doubt: the leave-one-out posterior always exists."""

    needs = "a process that leaves every token in doubt"

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.has_bridge and not process.reveals


class MaskedOnly(Kernel):
    """A kernel of MDM."""

    needs = "a process whose lost tokens become the mask"

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.masking and not process.lifted


class UniformOnly(Kernel):
    """A kernel of UDM."""

    needs = "a Markov process with uniform noise"

    @classmethod
    def supports(cls, process: Process) -> bool:
        return process.uniform_noise and process.markov and not process.lifted


class Predictor(Kernel):
    """A step from the time of the state down to s.

    Most predictors remember nothing between steps and define `step`.  One that does (bits, times) defines `begin` and
    `advance`; its memory is its own and never part of the state.
    """

    ends_predicted: ClassVar[bool] = True
    """True if every free token at t = 0 was drawn from a prediction, so that forbidden tokens never come out."""

    def __init_subclass__(cls) -> None:
        if cls.step is Predictor.step and cls.advance is Predictor.advance:
            raise TypeError(f"{cls.__name__} must define step, or begin and advance if it remembers something")
        for name in {"step", "advance"} & vars(cls).keys():
            setattr(cls, name, _checked(getattr(cls, name), cls.check_step))

    def prepare(self, model: Model) -> Model:
        """Check the model, and return it as this predictor runs it."""
        self.check(model)
        return model

    def check_step(
        self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None, *memory: Any
    ) -> None:
        """Raise unless a step can be taken from the state to s."""
        check_kernel(self, evaluate, noisy, generator)
        if self.prepare(evaluate.model) is not evaluate.model:
            raise ValueError(f"{self.name} runs a model in its own way; evaluate what its prepare(model) returns")
        check_type("s", s, PerRow)
        check_time("s", s, noisy.tokens)
        self.check_order(s, noisy.t)

    def check_order(self, s: PerRow, t: PerRow) -> None:
        """Raise unless a step leads from t down to s."""
        check_order(s, t)

    def begin(self, process: Process, noisy: Noisy, generator: Randomness | None) -> Any:
        """Return the predictor's memory at the start of a run, or of a step of its own."""
        return None

    def advance(
        self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None, memory: Any
    ) -> tuple[Noisy, Any]:
        """Return the state at s, and the memory there."""
        return self.step(evaluate, noisy, s, generator), memory

    def temperature_at(self, t: PerRow) -> PerRow:
        """Return the temperature at which this predictor draws at time t, beside that of the sampler; 1 by default."""
        return torch.ones_like(t)

    def corrected(self, memory: Any, changed: Flags) -> Any:
        """Return the memory after a corrector changed some tokens."""
        return memory

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        """Return the state at s, by a step with no past."""
        return self.advance(evaluate, noisy, s, generator, self.begin(evaluate.process, noisy, generator))[0]


class Corrector(Kernel):
    """A kernel that leaves the time unchanged."""

    def __init_subclass__(cls) -> None:
        if "correct" in vars(cls):
            cls.correct = _checked(cls.correct, cls.check_call)  # type: ignore[method-assign]

    def check_call(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> None:
        """Raise unless the state can be corrected."""
        check_kernel(self, evaluate, noisy, generator)
        self.check(evaluate.model)
        check_type("call", call, int)
        if bool((noisy.alpha_t == 1).any()):
            raise ValueError(
                f"{self.name} redraws noise, and a row of the state has none (alpha_t = 1); correct earlier"
            )

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Network evaluations of one call."""

    @abstractmethod
    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        """Redraw some positions at the time of the state."""

    def once(self) -> "Corrector":
        """Return the corrector of a single evaluation of which this one takes several, for a caller who repeats it."""
        several = self.evaluations > 1 and any(item.name == "steps" for item in fields(self))
        return replace(self, steps=1) if several else self  # type: ignore[call-arg]


def _checked(method: Callable[..., Any], check: Callable[..., None]) -> Callable[..., Any]:
    """Check the arguments of a step that a user takes; those of a run were checked when it was made."""

    @wraps(method)
    def taken(self: Kernel, evaluate: Evaluator, *arguments: Any, **named: Any) -> Any:
        if not isinstance(evaluate, Evaluator) or evaluate.checks:
            check(self, evaluate, *arguments, **named)
        return method(self, evaluate, *arguments, **named)

    return taken


Predictor.step = _checked(Predictor.step, Predictor.check_step)  # type: ignore[method-assign]


def check_kernel(kernel: Kernel, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None) -> None:
    """Raise unless a kernel can act on a state, with these random numbers."""
    check_type("evaluate", evaluate, Evaluator)
    check_type("noisy", noisy, Noisy)
    check_type("generator", generator, Randomness | None)
    process, rows = evaluate.process, len(noisy.tokens)
    process.check_state(noisy)
    if rows != len(evaluate.evaluations):
        raise ValueError(f"the state has {rows} rows, but the evaluator counts {len(evaluate.evaluations)}")
    if isinstance(generator, RowGenerators) and len(generator.rows) != rows:
        raise ValueError(f"there are generators for {len(generator.rows)} rows, but the state has {rows}")


PREDICTORS: Registry[Predictor] = Registry("sampler", "tokenloom.samplers", "tokenloom.samplers.predictors")
CORRECTORS: Registry[Corrector] = Registry("corrector", "tokenloom.correctors", "tokenloom.samplers.correctors")


def restore(registry: Registry[Part], record: Any) -> Part:
    """Build a kernel from its record, the inverse of `Kernel.record`."""
    if isinstance(record, dict):
        record = {key: restore(registry, value) if isinstance(value, dict) else value for key, value in record.items()}
    return registry.restore(record)


def uniform_pair(noisy: Noisy, generator: Randomness | None) -> tuple[PerPosition, PerPosition]:
    """Draw two uniform numbers per position: one for the branch, one for the token."""
    return randomness.uniform_pair(noisy.tokens, generator)
