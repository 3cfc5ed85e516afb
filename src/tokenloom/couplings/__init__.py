"""How the path from x_0 to its noise is drawn: the second axis of a process, a coupling per file."""

from tokenloom.couplings.absorbing import Absorbing
from tokenloom.couplings.base import COUPLINGS, Chain, Clocked, Coupling, Lifted, OneWay
from tokenloom.couplings.left_to_right import LeftToRight
from tokenloom.couplings.markov import Markov
from tokenloom.couplings.maximal import Maximal
from tokenloom.couplings.transition_times import TransitionTimes

__all__ = [
    "COUPLINGS",
    "Absorbing",
    "Chain",
    "Clocked",
    "Coupling",
    "LeftToRight",
    "Lifted",
    "Markov",
    "Maximal",
    "OneWay",
    "TransitionTimes",
]
