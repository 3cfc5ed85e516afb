"""Samplers: a `Sampler` value runs a predictor and a corrector; every kernel is a public class here.

For authors of kernels: `Predictor`, `Corrector`, `PREDICTORS`, `CORRECTORS`, `Evaluator`, `LocalPrediction`,
`uniform_pair`.
"""

from tokenloom.samplers.correctors.forward_backward import ForwardBackward
from tokenloom.samplers.correctors.gibbs import DeterministicScan, Gibbs, Informed, RandomScan
from tokenloom.samplers.evaluator import Evaluator, LazyPrediction
from tokenloom.samplers.given import GivenTokens
from tokenloom.samplers.kernel import CORRECTORS, PREDICTORS, Corrector, Kernel, Predictor, uniform_pair
from tokenloom.samplers.local_prediction import LocalPrediction
from tokenloom.samplers.one_call import sample
from tokenloom.samplers.predictors.ancestral import Ancestral
from tokenloom.samplers.predictors.autoregressive import Autoregressive
from tokenloom.samplers.predictors.confidence import Confidence
from tokenloom.samplers.predictors.dndm import DNDM
from tokenloom.samplers.predictors.euler import Euler
from tokenloom.samplers.predictors.gillespie import Gillespie
from tokenloom.samplers.predictors.greedy_tail import GreedyTail
from tokenloom.samplers.predictors.mudm import MUDM
from tokenloom.samplers.predictors.planned import Planned
from tokenloom.samplers.predictors.psi import Psi
from tokenloom.samplers.predictors.reaudm import Resampled
from tokenloom.samplers.predictors.remasking import Remasking
from tokenloom.samplers.predictors.routing import Routing
from tokenloom.samplers.predictors.tau_leaping import TauLeaping
from tokenloom.samplers.results import Samples, Step
from tokenloom.samplers.run import Run
from tokenloom.samplers.sampler import Sampler
from tokenloom.samplers.stopping import Until

__all__ = [
    "CORRECTORS",
    "DNDM",
    "MUDM",
    "PREDICTORS",
    "Ancestral",
    "Autoregressive",
    "Confidence",
    "Corrector",
    "DeterministicScan",
    "Euler",
    "Evaluator",
    "ForwardBackward",
    "Gibbs",
    "Gillespie",
    "GivenTokens",
    "GreedyTail",
    "Informed",
    "Kernel",
    "LazyPrediction",
    "LocalPrediction",
    "Planned",
    "Predictor",
    "Psi",
    "RandomScan",
    "Remasking",
    "Resampled",
    "Routing",
    "Run",
    "Sampler",
    "Samples",
    "Step",
    "TauLeaping",
    "Until",
    "sample",
    "uniform_pair",
]
