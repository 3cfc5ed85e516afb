"""Public checkers: does my noise, coupling, process, sampler, objective, network or model keep its laws?

Each enumerates a small space, takes a few seconds and returns a `Report`: true where every law holds, and printed as
one sentence per law.

    report = check_noise(MyNoise(4))
    assert report, report
"""

from tokenloom.testing.networks import check_model as check_model
from tokenloom.testing.networks import check_network as check_network
from tokenloom.testing.noises import check_noise as check_noise
from tokenloom.testing.objectives import check_objective as check_objective
from tokenloom.testing.processes import check_coupling as check_coupling
from tokenloom.testing.processes import check_process as check_process
from tokenloom.testing.report import Report as Report
from tokenloom.testing.samplers import check_sampler as check_sampler
