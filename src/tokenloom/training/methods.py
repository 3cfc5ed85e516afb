r"""The methods of `--method`: the processes a network is trained under, and the defaults of its other options.

    udm, mdm, max-coupling, audm, hybrid, ar     the process of that name, or any registered process by its own name
    NAME:noise=unigram                           the same coupling, with the unigrams of the training data as noise
    NAME:noise=NOISE,option=...                  the same coupling, with any registered noise
    any:noises=uniform+masked+...                several processes for one network that reads the evidence

As a function of x_0 the likelihood of a noisy token takes two values, so with the evidence a_l (`process.py`)

    p(x_0 | x_t) is proportional to p_0(x_0) prod_l (1 + (e^{a_l} - 1) [x_0^l = x_t^l]):

of noise, coupling, schedule and time a network needs nothing but the evidence of each position.  So a batch may mix
processes: every row draws one of them, all equally likely, and t is the share of its tokens that are lost.
"""

from dataclasses import dataclass, replace

import torch

from tokenloom.cells import EVERY, PROCESSES, processes_of
from tokenloom.couplings import COUPLINGS
from tokenloom.drawing.randomness import Randomness, select, uniform
from tokenloom.noise import NOISES, Table, Uniform, unigrams
from tokenloom.posteriors import Denoiser, LeaveOneOut, Posterior
from tokenloom.process import Process
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.support.registry import options_of, required_of
from tokenloom.support.words import nearest
from tokenloom.types import Flags, PerRow, Tokens

SHORT = {"udm": "uniform", "mdm": "masked", "audm": "absorbing", "ar": "left-to-right"}
"""Short names of methods, with the process that each trains; other processes are methods by their own names."""
ANY, UNIGRAM = "any", "unigram"


@dataclass(frozen=True)
class Method:
    """The processes of a training, one unless it mixes them; a model is saved with the first."""

    processes: tuple[Process, ...]
    mixed: bool = False
    """True if rows of a batch may differ in their process, which only a network that reads the evidence can tell."""

    @property
    def process(self) -> Process:
        """The process that the model is saved with."""
        return self.processes[0]

    @property
    def predicts(self) -> type[Posterior]:
        """The posterior that a network predicts by default."""
        return LeaveOneOut if self.mixed or self.process.preferred is LeaveOneOut else Denoiser

    @property
    def objective(self) -> str:
        """The objective by default."""
        if self.process.sequential:
            return "next-token"
        if self.mixed:
            return "ce:weight=0.5"
        return "ce" if self.process.uniform_noise and self.process.markov and not self.process.lifted else "nelbo"

    @property
    def input_states(self) -> int:
        """Number of ids in the input of a network."""
        return max(process.input_states for process in self.processes)

    def corrupted(self, x_0: Tokens, t: PerRow, generator: Randomness | None, given: Flags | None) -> Noisy:
        """Corrupt a batch; rows of a mixture carry their evidence, and `t` is the share of their lost tokens."""
        if not self.mixed:
            return self.process.corrupted(x_0, t, generator, given)
        chosen = (uniform((len(x_0), 1), generator, x_0.device)[:, 0] * len(self.processes)).long()
        tokens, evidence = x_0.clone(), torch.zeros(x_0.shape, device=x_0.device, dtype=torch.float64)
        for number, process in enumerate(self.processes):
            rows = (chosen == number).nonzero().squeeze(1)
            if len(rows):
                time = process.masses.time_at_lost(t[rows].double()).clamp(0, 1)
                fixed = None if given is None else given[rows]
                state = process.corrupted(x_0[rows], time, select(generator, rows), fixed)
                tokens[rows], evidence[rows] = state.tokens, process.evidence(state)
        return Noisy(tokens, t, 1 - t.double(), None, given, None, evidence)


def methods() -> list[str]:
    """Return the names that `--method` takes."""
    buildable = [name for name in PROCESSES if required_of(PROCESSES[name]) == ["vocab_size"]]
    return sorted({*SHORT, ANY, *buildable})


def method_of(text: str, vocab_size: int, schedule: Schedule, tokens: torch.Tensor | None = None) -> Method:
    """Build the method that a text names, on a vocabulary; its unigrams are those of `tokens`."""
    name, _, options = text.partition(":")
    if name not in methods():
        raise ValueError(f"there is no method {name!r}; {nearest(name, methods())}")
    given = dict(option.partition("=")[::2] for option in filter(None, options.split(",")))
    if name == ANY:
        for key in given.keys() - {"noises"}:
            raise ValueError(f"any has no option {key!r}; {nearest(key, ['noises'])}")
        return Method(processes_of(given.get("noises", EVERY), vocab_size, schedule), mixed=True)
    noise, process_name = given.pop("noise", None), SHORT.get(name, name)
    own = given if noise is None else {key: given[key] for key in given if key in options_of(PROCESSES[process_name])}
    process = PROCESSES.parse(_text(process_name, own), vocab_size=vocab_size, schedule=schedule)
    if noise is None:
        return Method((process,))
    if process.sequential or not isinstance(process.noise, Uniform):
        raise ValueError(f"{name} says what its noise is; noise={noise} goes with udm, max-coupling and audm")
    rest = {key: given[key] for key in given if key not in own}
    if noise == UNIGRAM and not rest:
        counted = torch.arange(vocab_size) if tokens is None else tokens
        return Method((replace(process, noise=unigrams(counted, vocab_size)),))
    named = [kind for kind in NOISES if required_of(NOISES[kind]) == ["vocab_size"]]
    if noise not in named:
        hint = nearest(noise, named)
        raise ValueError(f"noise must be unigram, the counts of the data, or a noise, got {noise!r}; {hint}")
    return Method((replace(process, noise=NOISES.parse(_text(noise, rest), vocab_size=vocab_size)),))


def _text(name: str, options: dict[str, str]) -> str:
    return f"{name}:{','.join(f'{key}={value}' for key, value in options.items())}"


def method_text(process: Process) -> str:
    """Return the text of the method that trains under a process."""
    options = NOISES.options(process.noise, skip=("vocab_size", "pi")) + COUPLINGS.options(process.coupling)
    names = (*SHORT, *(name for name in methods() if name != ANY))
    plain = {name: method_of(name, process.vocab_size, process.schedule).process for name in names}
    for name, other in plain.items():
        if other.name == process.name:
            return f"{name}:{','.join(options)}".removesuffix(":")
    noise = UNIGRAM if isinstance(process.noise, Table) else NOISES.name_of(process.noise)
    for name, other in plain.items():
        if noise and isinstance(other.noise, Uniform) and type(other.coupling) is type(process.coupling):
            return f"{name}:{','.join([f'noise={noise}', *options])}"
    raise ValueError(f"{process.title} has no training method of its own")
