"""The kernels of a sampler: predictors, which step from t down to s, and correctors, which act at a fixed time.

A kernel is a frozen dataclass of options with a pure step over a state.  `supports` asks a process for what the kernel
needs of it, and `exact` says whether its law is exact at these options in the limit of many steps.  A module in
`predictors/` or `correctors/` that registers its class is all it takes for the command line, the docs and the
conformance tests to know it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch

from tokenloom.drawing import randomness
from tokenloom.drawing.randomness import Randomness
from tokenloom.models.protocol import Model
from tokenloom.process import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.state import Noisy
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields
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

    def prepare(self, model: Model) -> Model:
        """Check the model, and return it as this predictor runs it."""
        self.check(model)
        return model

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

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Network evaluations of one call."""

    @abstractmethod
    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        """Redraw some positions at the time of the state."""


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
