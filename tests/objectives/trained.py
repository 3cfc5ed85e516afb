"""Every objective with every registered process and representation that it trains: a new one joins by being there."""

import itertools

import tokenloom as tl
from tests.samplers.helpers import Cell, process_of
from tokenloom.cells import PROCESSES
from tokenloom.objectives import OBJECTIVES
from tokenloom.posteriors import Posterior

KINDS: tuple[type[Posterior], ...] = (tl.Denoiser, tl.LeaveOneOut, tl.Score)
LINEAR = tl.LinearSchedule()


def built(name: str, size: int, length: int, schedule: tl.Schedule = LINEAR) -> tl.Process:
    kind: Cell = PROCESSES[name]
    return process_of(kind, size, length, schedule)


def fits(objective: str, process: str, predicts: type[Posterior]) -> bool:
    try:
        OBJECTIVES.parse(objective).check(built(process, 3, 2), predicts, hollow=True)
    except ValueError:
        return False
    return True


TRAINED = [case for case in itertools.product(OBJECTIVES, PROCESSES, KINDS) if fits(*case)]
