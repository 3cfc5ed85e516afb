"""What `tokenloom bench sampling` compares with, on the same network: the textbook way, and a package of the field.

The dense reference is `dense_gumbel.py`; `flow-matching` is the package of that name, left out where it is not
installed.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks import dense_gumbel
from tokenloom import DiffusionModel

Runner = Callable[[], float]
"""Samples once and says how many evaluations it took."""
Prepare = Callable[[DiffusionModel, int, int, int], Runner | None]
"""A runner for a model, a vocabulary, a length and a number of steps; None where what it needs is not installed."""


def _logits(model: DiffusionModel) -> Callable[[Tensor, Tensor], Tensor]:
    def network(tokens: Tensor, time: Tensor) -> Tensor:
        with torch.inference_mode():
            logits: Tensor = model.network(tokens, time)
        return logits

    return network


def _dense_uniform(top_p: float = 1.0) -> Prepare:
    def prepare(model: DiffusionModel, vocab_size: int, length: int, steps: int) -> Runner:
        def run() -> float:
            with torch.inference_mode():
                dense_gumbel.sample_uniform(_logits(model), vocab_size, length, steps, top_p)
            return float(steps)

        return run

    return prepare


def _dense_masked(model: DiffusionModel, vocab_size: int, length: int, steps: int) -> Runner:
    def run() -> float:
        with torch.inference_mode():
            dense_gumbel.sample_masked(_logits(model), vocab_size, length, steps)
        return float(steps)

    return run


def _flow_matching(model: DiffusionModel, vocab_size: int, length: int, steps: int) -> Runner | None:
    try:
        from flow_matching.path import MixtureDiscreteProbPath
        from flow_matching.path.scheduler import PolynomialConvexScheduler
        from flow_matching.solver import MixtureDiscreteEulerSolver
        from flow_matching.utils import ModelWrapper
    except ImportError:
        return None
    network = _logits(model)

    class Wrapped(ModelWrapper):
        def forward(self, x: Tensor, t: Tensor, **extras: Any) -> Tensor:
            return torch.softmax(network(x, 1 - t), -1)

    solver = MixtureDiscreteEulerSolver(
        Wrapped(model.network), MixtureDiscreteProbPath(PolynomialConvexScheduler(n=1.0)), vocab_size
    )

    def run() -> float:
        solver.sample(torch.randint(vocab_size, (1, length)), step_size=1 / steps)
        return float(steps)

    return run


PEERS: dict[str, Prepare] = {
    "dense float64 Gumbel, UDM": _dense_uniform(),
    "dense float64 Gumbel, UDM, top-p 0.9": _dense_uniform(0.9),
    "dense float64 Gumbel, MDM": _dense_masked,
    "flow-matching, discrete Euler": _flow_matching,
}
