"""What a sampler is made of: predictors, which step from t down to s, and correctors, which act at a fixed time.

A kernel is a frozen dataclass of options with a pure step over a state.  It says which processes it serves, whether its
law is exact in the limit of many steps, and is found by name: a module in `predictors/` or `correctors/` that registers
its class is all it takes for the command line, the docs and the conformance tests to know it.
"""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin

import torch

from tokenloom.checks import nearest
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Score
from tokenloom.processes import Process, Uniform
from tokenloom.randomness import Randomness, uniform
from tokenloom.samplers.evaluator import Evaluator, Model
from tokenloom.state import Noisy
from tokenloom.types import Flags, PerPosition, PerRow


@dataclass(frozen=True)
class Kernel(ABC):
    """One algorithm with its options."""

    name: ClassVar[str]
    serves: ClassVar[tuple[type[Process], ...]]
    """The processes it can run, exactly these types."""
    exact: ClassVar[bool] = True
    """Whether the law of its output tends to p_0 (a predictor) or is left invariant (a corrector), given exact
    posteriors and factorised draws refined by many steps.  Rules of thumb say False."""
    exact_unless: ClassVar[str] = ""
    """An option that takes `exact` away."""

    def check(self, model: Model) -> None:
        """Raise unless this kernel can serve the model."""
        if type(model.process) in self.serves:
            return
        registry: Mapping[str, type[Kernel]] = PREDICTORS if isinstance(self, Predictor) else CORRECTORS
        able = sorted(name for name, kernel in registry.items() if type(model.process) in kernel.serves)
        raise ValueError(
            f"{self.name} serves {', '.join(kind.__name__ for kind in self.serves)}, but the model's process is "
            f"{type(model.process).__name__}; " + (f"use {', '.join(able)}" if able else "nothing of its kind does")
        )


class Predictor(Kernel):
    """A step from the time of the state down to s."""

    def prepare(self, model: Model) -> Model:
        """The model as this predictor runs it; checked."""
        self.check(model)
        return model

    def initial(
        self, process: Process, batch: int, length: int, generator: Randomness | None, device: torch.device
    ) -> Noisy:
        """The state at t = 1."""
        return process.prior(batch, length, generator, device)

    @abstractmethod
    def step(self, evaluate: Evaluator, noisy: Noisy, s: PerRow, generator: Randomness | None) -> Noisy:
        """The state at s."""


class Corrector(Kernel):
    """A kernel that leaves the time as it is."""

    @property
    @abstractmethod
    def evaluations(self) -> int:
        """Network evaluations of one call."""

    @abstractmethod
    def correct(self, evaluate: Evaluator, noisy: Noisy, generator: Randomness | None, call: int) -> Noisy:
        """The corrected state; `call` counts the calls of this run from 0."""


PREDICTORS: dict[str, type[Predictor]] = {}
CORRECTORS: dict[str, type[Corrector]] = {}
Class = TypeVar("Class", bound=type[Kernel])


def register(name: str) -> Callable[[Class], Class]:
    """Make a kernel known by name."""

    def add(kernel: Class) -> Class:
        kernel.name = name
        if issubclass(kernel, Predictor):
            PREDICTORS[name] = kernel
        elif issubclass(kernel, Corrector):
            CORRECTORS[name] = kernel
        return kernel

    return add


def discover() -> None:
    """Import every module of `predictors/` and `correctors/`."""
    for folder in ("predictors", "correctors"):
        package = importlib.import_module(f"tokenloom.samplers.{folder}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


Role = TypeVar("Role", bound=Kernel)


def make(text: str, registry: Mapping[str, type[Role]]) -> Role:
    """A kernel from its name and options, as in `psi:kappa=0.9`."""
    name, _, options = text.partition(":")
    if name not in registry:
        role = "corrector" if any(issubclass(kernel, Corrector) for kernel in registry.values()) else "sampler"
        raise ValueError(f"there is no {role} {name!r}; {nearest(name, registry)}")
    kernel = registry[name]
    known = {item.name: item.type for item in fields(kernel)}
    values: dict[str, Any] = {}
    for option in filter(None, options.split(",")):
        key, _, value = option.partition("=")
        key = key.replace("-", "_")
        if key not in known:
            hint = nearest(key, known) if known else "it has none"
            raise ValueError(f"{name} has no option {key!r}; {hint}")
        values[key] = _parse(f"{name}:{key}", value, known[key])
    return kernel(**values)


def _parse(name: str, value: str, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ValueError(f"{name} must be one of {', '.join(get_args(kind))}, got {value!r}")
        return value
    if kind is bool:
        if value not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, got {value!r}")
        return value == "true"
    if kind not in (int, float):
        raise ValueError(f"{name} cannot be given as text; pass the kernel as an object")
    try:
        return kind(value)
    except ValueError as error:
        raise ValueError(f"{name} must be {'a whole number' if kind is int else 'a number'}, got {value!r}") from error


def natural(model: Model) -> type[OverTokens]:
    """The representation a step of this model takes: what it predicts under UDM, else the denoiser."""
    if type(model.process) is Uniform and model.predicts in (LeaveOneOut, Score):
        return LeaveOneOut
    return Denoiser


def two_numbers(noisy: Noisy, generator: Randomness | None) -> tuple[PerPosition, PerPosition]:
    """Two uniform numbers a position: one for the branch, one for the token."""
    shape, device = tuple(noisy.tokens.shape), noisy.tokens.device
    return uniform(shape, generator, device), uniform(shape, generator, device)


def free(noisy: Noisy) -> Flags:
    """Positions that are not given."""
    if noisy.fixed is None:
        return torch.ones_like(noisy.tokens, dtype=torch.bool)
    return ~noisy.fixed
