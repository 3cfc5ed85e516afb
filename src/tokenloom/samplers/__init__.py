"""Samplers: a driver over predictors and correctors, which are found by name in their registries."""

from tokenloom.samplers.driver import Samples, Step, run_sampler, sample
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS, Corrector, Predictor, discover, make, register

discover()

__all__ = [
    "CORRECTORS",
    "PREDICTORS",
    "Corrector",
    "Predictor",
    "Samples",
    "Step",
    "make",
    "register",
    "run_sampler",
    "sample",
]
