"""What a sampler is made of: predictors, which step from t down to s, and correctors, which act at a fixed time.

A kernel is a frozen dataclass of options with a pure step over a state.  It says in `serves` what it needs of a
process, in the words of `processes/traits.py`, and whether its law is exact in the limit of many steps.  A module in
`predictors/` or `correctors/` that registers its class is all it takes for the command line, the docs and the
conformance tests to know it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.models.protocol import Model
from tokenloom.processes.base import Process
from tokenloom.samplers.evaluator import Evaluator
from tokenloom.samplers.needs import ANYTHING, Need
from tokenloom.state import Noisy
from tokenloom.support.registry import Registry
from tokenloom.support.typed import check_fields
from tokenloom.types import Flags, PerPosition, PerRow

Part = TypeVar("Part", bound="Kernel")


@dataclass(frozen=True)
class Kernel(ABC):
    """One algorithm with its options.

    Raises:
        ValueError: If an option has a wrong type or lies outside its range.
    """

    name: ClassVar[str]
    serves: ClassVar[Need] = ANYTHING
    """What it needs of a process (`needs.py`)."""
    sequential: ClassVar[bool] = False
    """Whether it draws one position after the other, for a causal model."""
    exact: ClassVar[bool] = True
    """Whether the law of its output tends to p_0 (a predictor) or is left invariant (a corrector), given exact
    posteriors and factorised draws refined by many steps.  Heuristics say False."""
    exact_unless: ClassVar[str] = ""
    """An option that takes `exact` away."""

    def __post_init__(self) -> None:
        check_fields(self)

    def record(self) -> dict[str, Any]:
        """This kernel as JSON, with any kernel inside it.

        Returns:
            JSON values: the name and the options.
        """
        options = self.registry().record(self)
        return {key: value.record() if isinstance(value, Kernel) else value for key, value in options.items()}

    @classmethod
    def supports(cls, process: Process) -> bool:
        """Whether this kernel can run under the process.

        Args:
            process: The process to sample.

        Returns:
            True where `serves` is met, and both or neither go from left to right.
        """
        return process.sequential == cls.sequential and cls.serves(process)

    @classmethod
    def registry(cls) -> "Registry[Any]":
        """The registry of kernels of this role.

        Returns:
            `PREDICTORS` or `CORRECTORS`.
        """
        return PREDICTORS if issubclass(cls, Predictor) else CORRECTORS

    def check(self, model: Model) -> None:
        """Raise unless this kernel can run the model.

        Args:
            model: The model to sample.

        Raises:
            ValueError: If the model's process is not supported; the message names the kernels that do support it.
        """
        process = model.process
        if self.supports(process):
            return
        registry = self.registry()
        able = [name for name in registry if registry[name].supports(process)]
        if process.sequential != self.sequential:
            wanted = "a causal model" if self.sequential else "a model that sees every position"
        else:
            wanted = self.serves.words
        raise ValueError(
            f"{self.name} needs {wanted}, but the model's process is {type(process).__name__}; "
            + (f"use {', '.join(able)}" if able else f"there is no {registry.kind} for it")
        )


class Predictor(Kernel):
    """A step from the time of the state down to s.

    Most predictors remember nothing between steps and define `step`.  One that does (bits, times) defines `begin` and
    `advance`; its memory is its own and never part of the state.
    """

    ends_predicted: ClassVar[bool] = True
    """Whether every free token at t = 0 was drawn from a prediction, so that forbidden tokens never come out."""

    def __init_subclass__(cls) -> None:
        if cls.step is Predictor.step and cls.advance is Predictor.advance:
            raise TypeError(f"{cls.__name__} must define step, or begin and advance if it remembers something")

    def prepare(self, model: Model) -> Model:
        """The model as this predictor runs it; checked.

        Args:
            model: The model to sample.

        Returns:
            The same model, or the same network under the process that this predictor runs.

        Raises:
            ValueError: If it cannot run the model.
        """
        self.check(model)
        return model

    def begin(self, process: Process, noisy: Noisy, generator: Randomness | None) -> Any:
        """What the predictor remembers at the start of a run, or of a step of its own.

        Args:
            process: The process that is sampled.
            noisy: The state it starts from.
            generator: Where random numbers come from.

        Returns:
            The memory; None for nothing.
        """
        return None

    def advance(
        self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None, memory: Any
    ) -> tuple[Noisy, Any]:
        """The state at s, and what is remembered there.

        Args:
            evaluate: The model, called as `evaluate(noisy)`.
            noisy: The state x_t.
            s: The earlier time of each row.
            generator: Where random numbers come from.
            memory: What `begin` or the last step remembered.

        Returns:
            The state and the memory.
        """
        return self.step(evaluate, noisy, s, generator), memory

    def corrected(self, memory: Any, changed: Flags) -> Any:
        """What is remembered after a corrector changed some tokens.

        Args:
            memory: What the last step remembered.
            changed: Flags of the changed positions.

        Returns:
            The memory for the next step.
        """
        return memory

    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        """The state at s, by a step with no past.

        Args:
            evaluate: The model, called as `evaluate(noisy)`.
            noisy: The state x_t.
            s: The earlier time of each row.
            generator: Where random numbers come from.

        Returns:
            The state at s.
        """
        return self.advance(evaluate, noisy, s, generator, self.begin(evaluate.process, noisy, generator))[0]


class Corrector(Kernel):
    """A kernel that leaves the time unchanged."""

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Network evaluations of one call."""

    @abstractmethod
    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        """Redraw some positions at the time of the state.

        Args:
            evaluate: The model, called as `evaluate(noisy)`.
            noisy: The state x_t.
            generator: Where random numbers come from.
            call: How many times this was called before in the same run.

        Returns:
            The corrected state, at the same time.
        """


PREDICTORS: Registry[Predictor] = Registry("sampler", "tokenloom.samplers", "tokenloom.samplers.predictors")
CORRECTORS: Registry[Corrector] = Registry("corrector", "tokenloom.correctors", "tokenloom.samplers.correctors")


def restore(registry: Registry[Part], record: Any) -> Part:
    """The inverse of `Kernel.record`."""
    if isinstance(record, dict):
        record = {key: restore(registry, value) if isinstance(value, dict) else value for key, value in record.items()}
    return registry.restore(record)


def uniform_pair(noisy: Noisy, generator: Randomness | None) -> tuple[PerPosition, PerPosition]:
    """Two uniform numbers per position: one for the branch, one for the token.

    Args:
        noisy: The state, for its shape and device.
        generator: Where random numbers come from; PyTorch's global generator if None.

    Returns:
        The numbers for branches, and those for tokens; float64 in [0, 1).
    """
    shape, device = tuple(noisy.tokens.shape), noisy.tokens.device
    return uniform(shape, generator, device), uniform(shape, generator, device)
