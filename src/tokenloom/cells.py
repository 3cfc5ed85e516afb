"""The families with names of their own: short for a noise and a coupling."""

from jaxtyping import Float
from torch import Tensor

from tokenloom.couplings import Absorbing, Coupling, Markov, Maximal, TransitionTimes
from tokenloom.couplings import LeftToRight as _LeftToRight
from tokenloom.noise import Mask, MaskAndUniform, Noise, Table
from tokenloom.noise import Uniform as _Uniform
from tokenloom.process import Process
from tokenloom.schedules import LinearSchedule, Schedule
from tokenloom.support.registry import Registry

LINEAR = LinearSchedule()
COMPLETE = LinearSchedule(eps=0.0)
"""Nothing is left at t = 1."""

PROCESSES: Registry[Process] = Registry("process", "tokenloom.processes", "tokenloom.cells")


@PROCESSES.register("uniform")
def Uniform(vocab_size: int, *, schedule: Schedule = LINEAR) -> Process:  # noqa: N802
    """Uniform diffusion (UDM): Markov, uniform noise."""
    return Process(_Uniform(vocab_size), Markov(), schedule)


@PROCESSES.register("masked")
def Masked(vocab_size: int, *, mask_id: int | None = None, schedule: Schedule = LINEAR) -> Process:  # noqa: N802
    """Masked diffusion (MDM): a lost token becomes the mask (`eq:mdm-bridge`)."""
    return Process(Mask(vocab_size, mask_id=mask_id), Markov(), schedule)


@PROCESSES.register("max-coupling")
def MaxCoupling(vocab_size: int, *, schedule: Schedule = LINEAR) -> Process:  # noqa: N802
    """Uniform noise under the maximal coupling."""
    return Process(_Uniform(vocab_size), Maximal(), schedule)


@PROCESSES.register("absorbing")
def AbsorbingUniform(vocab_size: int, *, schedule: Schedule = LINEAR) -> Process:  # noqa: N802
    """AUDM: uniform noise, shown with the absorbing sequence U in `aux` of a state."""
    return Process(_Uniform(vocab_size), Absorbing(), schedule)


@PROCESSES.register("transition-times")
def MaskedUniform(vocab_size: int, *, mask_id: int | None = None, schedule: Schedule = LINEAR) -> Process:  # noqa: N802
    """MUDM: uniform noise, shown with the transition times tau in `aux` of a state."""
    return Process(_Uniform(vocab_size), TransitionTimes(mask_id), schedule)


@PROCESSES.register("hybrid")
def Hybrid(  # noqa: N802
    vocab_size: int, p_uniform: float = 0.1, *, mask_id: int | None = None, schedule: Schedule = COMPLETE
) -> Process:
    """GIDD: masks and uniform tokens, in a mixture that moves with t."""
    return Process(MaskAndUniform(vocab_size, p_uniform, mask_id=mask_id), Markov(), schedule)


@PROCESSES.register("interpolating")
def Interpolating(vocab_size: int, pi: Float[Tensor, "length vocab"], *, schedule: Schedule = LINEAR) -> Process:  # noqa: N802
    """Markov, with any noise law."""
    return Process(Table(vocab_size, pi), Markov(), schedule)


@PROCESSES.register("left-to-right")
def LeftToRight(vocab_size: int, *, schedule: Schedule = LINEAR) -> Process:  # noqa: N802
    """The process of a causal network, which writes one position after the other."""
    return Process(_Uniform(vocab_size), _LeftToRight(), schedule)


EVERY = "uniform+masked+absorbing+hybrid"
"""The processes that a network for any noise is trained under by default."""


def processes_of(names: str, vocab_size: int, schedule: Schedule) -> tuple[Process, ...]:
    """Several processes on the same vocabulary, by their names joined by +."""
    found = tuple(PROCESSES.parse(name, vocab_size=vocab_size, schedule=schedule) for name in names.split("+"))
    for index, process in enumerate(found):
        if process.sequential:
            raise ValueError(f"noises are processes that see every position, joined by +, got {process.name!r}")
        if process.name in [other.name for other in found[:index]]:
            raise ValueError(f"noises names {process.name!r} twice; each process may be there once")
    return found


CELLS: dict[tuple[type[Noise], type[Coupling]], tuple[str, str]] = {
    (_Uniform, Markov): ("uniform", "Uniform"),
    (Mask, Markov): ("masked", "Masked"),
    (_Uniform, Maximal): ("max-coupling", "MaxCoupling"),
    (_Uniform, Absorbing): ("absorbing", "AbsorbingUniform"),
    (_Uniform, TransitionTimes): ("transition-times", "MaskedUniform"),
    (MaskAndUniform, Markov): ("hybrid", "Hybrid"),
    (Table, Markov): ("interpolating", "Interpolating"),
    (_Uniform, _LeftToRight): ("left-to-right", "LeftToRight"),
}
"""Name and title of each cell that has them."""
