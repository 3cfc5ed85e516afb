r"""Any noise: every row of a batch under a process and at a level of its own, to train one network for all of them.

As a function of x_0 the likelihood of a noisy token takes two values, so with the evidence a_l (`forward.py`)

    p(x_0 | x_t) is proportional to p_0(x_0) prod_l (1 + (e^{a_l} - 1) [x_0^l = x_t^l]):

of noise law, schedule and time a network needs nothing but the evidence of each position.  It is the auxiliary variable
of a state here.  A row draws one of the `noises`, all equally likely, and t is the share of its tokens that are lost,
1 - alpha_t, whatever the schedule.  There is no noise law, no bridge and no bound in this: those belong to the process
that the network is used under, `model.with_process(...)`.  So it is not a process to sample from, nor among them.
"""

from dataclasses import dataclass
from functools import cached_property

import torch

from tokenloom.drawing.randomness import Randomness, select, uniform
from tokenloom.posteriors import Posterior
from tokenloom.processes.base import PROCESSES, Process
from tokenloom.processes.forward import reveal
from tokenloom.processes.noise import Noise
from tokenloom.state import Noisy
from tokenloom.support.checks import check_time
from tokenloom.support.registry import Registry
from tokenloom.support.typed import checked
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

MIXTURES: Registry["AnyNoise"] = Registry("mixture", "tokenloom.mixtures", "tokenloom.processes")


@MIXTURES.register("any")
@dataclass(frozen=True)
class AnyNoise(Process):
    """A mixture of processes over the same K tokens; `aux` of a state is the evidence of each position."""

    noises: str = "uniform+masked+absorbing+hybrid"
    """The processes of the mixture, by their names in the registry; the first is the one that a model is saved with."""

    method = "any"
    default_objective = "ce:weight=0.5"
    mask_states = by_evidence = True

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [process.name for process in self.parts]
        for process in self.parts:
            if process.sequential:
                raise ValueError(f"noises are processes that see every position, joined by +, got {process.name!r}")
            if names.count(process.name) > 1:
                raise ValueError(f"noises names {process.name!r} twice; each process may be there once")

    @cached_property
    def parts(self) -> tuple[Process, ...]:
        named = self.noises.split("+")
        return tuple(PROCESSES.parse(name, vocab_size=self.vocab_size, schedule=self.schedule) for name in named)

    @property
    def num_states(self) -> int:
        return max(process.num_states for process in self.parts)

    def noise(self, noisy: Noisy) -> Noise:
        raise ValueError(f"a mixture of processes has no noise law of its own; {self._remedy}")

    def bound(self, predicts: type[Posterior]) -> str:
        raise ValueError(f"a mixture of processes has no bound of its own; {self._remedy}")

    @property
    def _remedy(self) -> str:
        return f"use model.with_process(...) with one of {self.noises.replace('+', ', ')}"

    def evidence(self, noisy: Noisy) -> PerPosition:
        if noisy.aux is None:
            raise ValueError("AnyNoise needs the evidence of each position in aux; corrupt() provides it")
        return reveal(noisy.aux, noisy)

    @checked
    def corrupt(self, x_0: Tokens, t: PerRow, generator: Randomness | None = None, given: Flags | None = None) -> Noisy:
        """Each row under a process of its own; `t` is the share of tokens that are lost."""
        self.check_clean(x_0, given)
        check_time("t", t, x_0)
        chosen = (uniform((len(x_0), 1), generator, x_0.device)[:, 0] * len(self.parts)).long()
        tokens, evidence = x_0.clone(), torch.zeros(x_0.shape, device=x_0.device, dtype=torch.float64)
        for number, process in enumerate(self.parts):
            rows = (chosen == number).nonzero().squeeze(1)
            if len(rows):
                time = process.time_at(1 - t[rows].double()).clamp(0, 1)
                held = None if given is None else given[rows]
                state = process.corrupt(x_0[rows], time, select(generator, rows), held)
                tokens[rows], evidence[rows] = state.tokens, process.evidence(state)
        return Noisy(tokens, t, 1 - t.double(), evidence, given)
