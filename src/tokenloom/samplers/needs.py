"""What kernels ask of a process, in the words of `processes/traits.py`: each need is a question and a phrase for it."""

from collections.abc import Callable
from dataclasses import dataclass

from tokenloom.posteriors import Denoiser
from tokenloom.processes.base import Process


@dataclass(frozen=True)
class Need:
    """A predicate on a process, with its words."""

    words: str
    """What completes the sentence "this sampler needs ..."."""
    met_by: Callable[[Process], bool]
    """Whether a process has it."""

    def __call__(self, process: Process) -> bool:
        """Whether the process meets this need.

        Args:
            process: The process to ask about.

        Returns:
            True where it does.
        """
        return self.met_by(process)


def in_doubt(process: Process) -> bool:
    """Whether every token leaves some doubt, so that the leave-one-out posterior always exists."""
    return not process.reveals and not process.lifted


def plain(process: Process) -> bool:
    """Whether noise can be added to a state, which is all there is to it."""
    return process.markov and not process.lifted


ANYTHING = Need("any process with a bridge", lambda process: True)
CAUSAL = Need("a causal model", lambda process: process.sequential)
DOUBT = Need("a process that leaves every token in doubt", in_doubt)
DOUBT_AND_DENOISER = Need(
    "a process that leaves every token in doubt and whose bridge takes the denoiser",
    lambda process: in_doubt(process) and Denoiser in process.bridge_takes,
)
DOUBT_WITHOUT_MASK = Need(
    "a process without a mask that leaves every token in doubt",
    lambda process: in_doubt(process) and not process.mask_states,
)
JUMPS = Need("a process that jumps at random times", lambda process: process.has_jump_rates)
JUMPS_WITH_INTEGRAL = Need(
    "a process that jumps at rates with a known integral",
    lambda process: process.has_jump_rates and process.has_rate_integral,
)
LIFTED = Need("a process with an auxiliary variable", lambda process: process.lifted)
MARKOV = Need("a Markov process without an auxiliary variable", plain)
MARKOV_UNIFORM = Need("a Markov process with uniform noise", lambda process: process.uniform_noise and plain(process))
MASKING = Need("a process whose lost tokens become the mask", lambda process: process.masking)
TRANSITION_TIMES = Need("a masked process", lambda process: process.with_transition_times() is not None)
