"""Forward laws, one a file."""

from tokenloom.processes.absorbing import AbsorbingUniform
from tokenloom.processes.base import Process
from tokenloom.processes.interpolating import Interpolating
from tokenloom.processes.masked import Masked
from tokenloom.processes.max_coupling import MaxCoupling
from tokenloom.processes.transition_times import MaskedUniform
from tokenloom.processes.uniform import Uniform

__all__ = ["AbsorbingUniform", "Interpolating", "Masked", "MaskedUniform", "MaxCoupling", "Process", "Uniform"]
