"""Where the time of a step goes: the network's body, its head, and the sampler, which is all else.

    step = body + head + sampler

The two parts of the model are timed where a sampler calls them; a step ends where the driver calls `on_step`.  Whole
forward passes, body and head at all positions, are timed between the steps and not counted, so that a slow spell of the
machine hits both.  What is reported is a median over steps with the range that 80% of them lie in.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from tokenloom import DiffusionModel, Process
from tokenloom.state import Noisy

EVERY = 4
"""Steps between two forward passes of the reference."""


@dataclass(frozen=True)
class Spread:
    """A median and the range between the 10th and the 90th percentile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Of some measurements."""
        quantiles = torch.tensor(values, dtype=torch.float64).quantile(torch.tensor([0.5, 0.1, 0.9]).double())
        return cls(*(float(f"{value:.4g}") for value in quantiles.tolist()))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass
class Clock:
    """Seconds spent in the two parts of a network."""

    seconds: dict[str, float] = field(default_factory=lambda: {"body": 0.0, "head": 0.0})

    def timed(self, part: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The function, whose time counts as that of a part."""

        def call(*args: Any, **options: Any) -> Tensor:
            start = time.perf_counter()
            result = function(*args, **options)
            self.seconds[part] += time.perf_counter() - start
            return result

        return call


class ClockedModel(DiffusionModel):
    """A model with a clock on body and head; a network that does not split is all body."""

    clock: Clock

    @classmethod
    def of(cls, model: DiffusionModel, clock: Clock) -> "ClockedModel":
        """The same model with a clock."""
        clocked = ClockedModel(model.network, model.process, predicts=model.predicts)
        clocked.compiled, clocked.clock = model.compiled, clock
        return clocked

    def body(self, noisy: Noisy) -> Tensor:
        return self.clock.timed("body", super().body)(noisy)

    def head(self, features: Tensor) -> Tensor:
        return self.clock.timed("head", super().head)(features)

    def with_process(self, process: Process) -> "ClockedModel":
        return ClockedModel.of(super().with_process(process), self.clock)


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step."""

    whole: float
    body: float
    head: float

    @property
    def sampler(self) -> float:
        """All that is not the network."""
        return self.whole - self.body - self.head


@dataclass
class Account:
    """The steps of a run and the forward passes between them; its `step` goes where a step ends."""

    clock: Clock
    forward: Callable[[], object]
    """A whole forward pass of the network."""
    steps: list[StepTime] = field(default_factory=list)
    forwards: list[float] = field(default_factory=list)

    def start(self) -> None:
        """A step begins now."""
        self._body, self._head = self.clock.seconds["body"], self.clock.seconds["head"]
        self._since = time.perf_counter()

    def step(self, *_: object) -> None:
        """A step ends now, and the next one begins."""
        whole = time.perf_counter() - self._since
        self.steps.append(
            StepTime(whole, self.clock.seconds["body"] - self._body, self.clock.seconds["head"] - self._head)
        )
        if len(self.steps) % EVERY == 1 % EVERY:
            self.reference()
        self.start()

    def reference(self) -> None:
        """Time a forward pass."""
        since = time.perf_counter()
        self.forward()
        self.forwards.append(time.perf_counter() - since)
