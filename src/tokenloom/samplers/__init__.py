"""Samplers: a `Sampler` value runs a predictor and a corrector; every kernel is a public class here.

For authors of kernels: `Predictor`, `Corrector`, `PREDICTORS`, `CORRECTORS`, `Evaluator`, `LocalPrediction`,
`uniform_pair`; of stop rules: `StopRule`, `Offer`, `STOPS`.
"""

from tokenloom.samplers.correctors.balanced import Balanced as Balanced
from tokenloom.samplers.correctors.forward_backward import ForwardBackward as ForwardBackward
from tokenloom.samplers.correctors.gibbs import DeterministicScan as DeterministicScan
from tokenloom.samplers.correctors.gibbs import Gibbs as Gibbs
from tokenloom.samplers.correctors.gibbs import RandomScan as RandomScan
from tokenloom.samplers.correctors.informed import Informed as Informed
from tokenloom.samplers.evaluator import Evaluator as Evaluator
from tokenloom.samplers.evaluator import LazyPrediction as LazyPrediction
from tokenloom.samplers.evaluator import LocalPrediction as LocalPrediction
from tokenloom.samplers.fill import fill as fill
from tokenloom.samplers.given import GivenTokens as GivenTokens
from tokenloom.samplers.kernel import CORRECTORS as CORRECTORS
from tokenloom.samplers.kernel import PREDICTORS as PREDICTORS
from tokenloom.samplers.kernel import Corrector as Corrector
from tokenloom.samplers.kernel import Kernel as Kernel
from tokenloom.samplers.kernel import Predictor as Predictor
from tokenloom.samplers.kernel import uniform_pair as uniform_pair
from tokenloom.samplers.predictors.adaptive import Adaptive as Adaptive
from tokenloom.samplers.predictors.ancestral import Ancestral as Ancestral
from tokenloom.samplers.predictors.autoregressive import Autoregressive as Autoregressive
from tokenloom.samplers.predictors.confidence import Confidence as Confidence
from tokenloom.samplers.predictors.dndm import DNDM as DNDM
from tokenloom.samplers.predictors.entropy_bound import EntropyBound as EntropyBound
from tokenloom.samplers.predictors.frozen_rates import Euler as Euler
from tokenloom.samplers.predictors.frozen_rates import TauLeaping as TauLeaping
from tokenloom.samplers.predictors.gillespie import Gillespie as Gillespie
from tokenloom.samplers.predictors.greedy_tail import GreedyTail as GreedyTail
from tokenloom.samplers.predictors.mudm import MUDM as MUDM
from tokenloom.samplers.predictors.planned import Planned as Planned
from tokenloom.samplers.predictors.psi import Psi as Psi
from tokenloom.samplers.predictors.reaudm import Resampled as Resampled
from tokenloom.samplers.predictors.remasking import Remasking as Remasking
from tokenloom.samplers.predictors.routing import Routing as Routing
from tokenloom.samplers.run import Run as Run
from tokenloom.samplers.run import Samples as Samples
from tokenloom.samplers.run import Step as Step
from tokenloom.samplers.sampler import Sampler as Sampler
from tokenloom.samplers.sampler import sample as sample
from tokenloom.samplers.stopping import STOPS as STOPS
from tokenloom.samplers.stopping import Offer as Offer
from tokenloom.samplers.stopping import StopRule as StopRule
from tokenloom.samplers.stopping import Until as Until
from tokenloom.samplers.stops.stable import Stable as Stable
