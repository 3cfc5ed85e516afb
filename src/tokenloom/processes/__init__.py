"""Forward laws, one per file, and what they are made of."""

from tokenloom.processes.absorbing import AbsorbingUniform
from tokenloom.processes.base import PROCESSES, Process
from tokenloom.processes.interpolating import Interpolating
from tokenloom.processes.left_to_right import LeftToRight
from tokenloom.processes.masked import Masked
from tokenloom.processes.max_coupling import MaxCoupling
from tokenloom.processes.transition_times import MaskedUniform
from tokenloom.processes.uniform import Uniform

__all__ = [
    "PROCESSES",
    "AbsorbingUniform",
    "Interpolating",
    "LeftToRight",
    "Masked",
    "MaskedUniform",
    "MaxCoupling",
    "Process",
    "Uniform",
]
