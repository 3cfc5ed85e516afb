"""Laws of the path from x_0 to its noise: the second axis of a process, one coupling per file."""

from tokenloom.couplings.absorbing import Absorbing as Absorbing
from tokenloom.couplings.base import COUPLINGS as COUPLINGS
from tokenloom.couplings.base import Chain as Chain
from tokenloom.couplings.base import Clocked as Clocked
from tokenloom.couplings.base import Coupling as Coupling
from tokenloom.couplings.base import Lifted as Lifted
from tokenloom.couplings.base import OneWay as OneWay
from tokenloom.couplings.base import Timed as Timed
from tokenloom.couplings.left_to_right import LeftToRight as LeftToRight
from tokenloom.couplings.markov import Markov as Markov
from tokenloom.couplings.maximal import Maximal as Maximal
from tokenloom.couplings.transition_times import TransitionTimes as TransitionTimes
