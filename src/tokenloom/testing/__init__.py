"""Public checkers: does my noise, coupling, process, sampler, objective, network or model keep its laws?

Each enumerates a small space, takes a few seconds and returns a `Report`: true where every law holds, and printed as
one sentence per law.

    assert check_noise(MyNoise(4)), print(check_noise(MyNoise(4)))
"""

from tokenloom.testing.couplings import check_coupling
from tokenloom.testing.networks import check_model, check_network
from tokenloom.testing.noises import check_noise
from tokenloom.testing.objectives import check_objective
from tokenloom.testing.processes import check_process
from tokenloom.testing.report import Report
from tokenloom.testing.samplers import check_sampler

__all__ = [
    "Report",
    "check_coupling",
    "check_model",
    "check_network",
    "check_noise",
    "check_objective",
    "check_process",
    "check_sampler",
]
