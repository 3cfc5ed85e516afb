"""What `tokenloom bench sampling` compares with, on the same network: the textbook way, and a package of the field.

The dense reference is benchmarks/dense_gumbel.py of a clone; `flow-matching` is the package of that name.  What is not
there is left out.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tokenloom.model import DiffusionModel

Runner = Callable[[], float]
"""Samples once and says how many evaluations it took."""


def _logits(model: DiffusionModel) -> Callable[[Tensor, Tensor], Tensor]:
    def network(tokens: Tensor, time: Tensor) -> Tensor:
        with torch.inference_mode():
            logits: Tensor = model.network(tokens, time)
        return logits

    return network


def _dense(kind: str, top_p: float = 1.0) -> Callable[[DiffusionModel, int, int, int], Runner | None]:
    def prepare(model: DiffusionModel, vocab_size: int, length: int, steps: int) -> Runner | None:
        module = _dense_module()
        if module is None:
            return None

        def run() -> float:
            with torch.inference_mode():
                if kind == "masked":
                    module.sample_masked(_logits(model), vocab_size, length, steps)
                else:
                    module.sample_uniform(_logits(model), vocab_size, length, steps, top_p)
            return float(steps)

        return run

    return prepare


def _dense_module() -> ModuleType | None:
    path = Path(__file__).parents[3] / "benchmarks" / "dense_gumbel.py"
    spec = importlib.util.spec_from_file_location("dense_gumbel", path) if path.is_file() else None
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


PEERS: dict[str, Callable[[DiffusionModel, int, int, int], Runner | None]] = {
    "dense float64 Gumbel, UDM": _dense("uniform"),
    "dense float64 Gumbel, UDM, top-p 0.9": _dense("uniform", 0.9),
    "dense float64 Gumbel, MDM": _dense("masked"),
    "flow-matching, discrete Euler": _flow_matching,
}
