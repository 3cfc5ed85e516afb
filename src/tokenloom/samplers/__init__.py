"""Samplers: a `Sampler` value runs a predictor and a corrector; every kernel is a public class here.

For authors of kernels: `Predictor`, `Corrector`, `PREDICTORS`, `CORRECTORS`, `Evaluator`, `LocalPrediction`,
`uniform_pair`, `Need`.
"""

from typing import Any

from tokenloom.samplers.evaluator import Evaluator, LazyPrediction
from tokenloom.samplers.given import GivenTokens
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS, Corrector, Kernel, Predictor, uniform_pair
from tokenloom.samplers.local_prediction import LocalPrediction
from tokenloom.samplers.needs import Need
from tokenloom.samplers.one_call import sample
from tokenloom.samplers.results import Samples, Step
from tokenloom.samplers.sampler import Sampler
from tokenloom.samplers.stopping import Until

__all__ = [
    "CORRECTORS",
    "PREDICTORS",
    "Corrector",
    "Evaluator",
    "GivenTokens",
    "Kernel",
    "LazyPrediction",
    "LocalPrediction",
    "Need",
    "Predictor",
    "Sampler",
    "Samples",
    "Step",
    "Until",
    "sample",
    "uniform_pair",
]


def __getattr__(name: str) -> Any:
    """A registered kernel by the name of its class, as in `samplers.Psi(kappa=0.9)`."""
    for registry in (PREDICTORS, CORRECTORS) if name[:1].isupper() else ():
        for key in registry:
            if registry[key].__name__ == name:
                return registry[key]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
