"""Every process as the tests build it, and one step of a kernel from every state at once, counted.

Chi-square tests here pool the starts: with their numbers fixed the statistic has fewer degrees of freedom than it is
tested for, so `FALSE_ALARM` is an upper bound.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.cells import PROCESSES as REGISTERED
from tokenloom.nn import CausalTransformer, DiT, TransformerConfig
from tokenloom.posteriors import Posterior
from tokenloom.samplers import CORRECTORS, PREDICTORS, Corrector, Evaluator, Kernel, Predictor

K, L = 3, 2
ROWS = 40_000
MASK = K
P0 = brute.random_p0(K, L)
UNIFORM_PI = brute.uniform_pi(K, L)
MASK_PI = brute.point_pi([MASK] * L, K + 1)
SEQUENCES = brute.sequences(K, L)
Cell = Callable[..., tl.Process]
"""A noise and a coupling: builds a process from K, a table where the noise is one, and a schedule."""


def table_cell(name: str, coupling: tl.couplings.Coupling) -> Cell:
    """A table of noise under a coupling."""

    def build(vocab_size: int, pi: Tensor, *, schedule: tl.Schedule) -> tl.Process:
        return tl.Process(tl.noise.Table(vocab_size, pi), coupling, schedule)

    build.__name__ = name  # of the tests
    return build


table_maximal = table_cell("table_maximal", tl.couplings.Maximal())
table_absorbing = table_cell("table_absorbing", tl.couplings.Absorbing())
table_times = table_cell("table_times", tl.couplings.TransitionTimes())
table_zeros = table_cell("table_zeros", tl.couplings.Markov())
table_point = table_cell("table_point", tl.couplings.Markov())


def zeros_pi(vocab_size: int, length: int) -> Tensor:
    """A random table in which the last token is never noise."""
    pi = brute.random_pi(vocab_size, length)
    pi[:, -1] = 0
    return pi / pi.sum(-1, keepdim=True)


def point_row_pi(vocab_size: int, length: int) -> Tensor:
    """A random table in which the first position is always lost to token 1."""
    pi = brute.random_pi(vocab_size, length)
    pi[0] = brute.point_pi([1], vocab_size)[0]
    return pi


TABLES: dict[Cell, Callable[[int, int], Tensor]] = {
    tl.Interpolating: brute.random_pi,
    table_maximal: brute.random_pi,
    table_absorbing: brute.random_pi,
    table_times: brute.random_pi,
    table_zeros: zeros_pi,
    table_point: point_row_pi,
}
"""The table of each cell whose noise is one."""
PROCESSES: list[Cell] = [REGISTERED[name] for name in REGISTERED if name != "left-to-right"]
"""All that are registered and see every position."""
CELLS = [*PROCESSES, *(cell for cell in TABLES if cell is not tl.Interpolating)]
"""With a table under every coupling, one with zeros, and one with a point mass in a row."""
KERNELS: dict[str, type[Kernel]] = {**PREDICTORS, **CORRECTORS}
EXTREMES = (
    "adaptive:parallel=1,draw=true",
    "adaptive:parallel=99",
    "adaptive:threshold=0,draw=true",
    "adaptive:threshold=1,on=denoiser",
    "ancestral:through=plug-in",
    "ancestral:through=marginalised",
    "balanced:g=sqrt,time=0.5",
    "balanced:g=barker,time=2",
    "balanced:g=min,parallel=true,time=2",
    "balanced:parallel=true,time=0.1,steps=2",
    "confidence:temperature=3",
    "confidence:score=margin",
    "confidence:score=entropy,temperature=0.3",
    "entropy-bound:bound=0,hot=9",
    "entropy-bound:bound=99,cold=1e-9",
    "forward-backward:amount=0.9",
    "forward-backward:amount=0.001,steps=2",
    "gillespie:floor=0.9",
    "informed:by=current,temperature=1",
    "informed:by=random",
    "informed:by=top,parallel=2",
    "informed:parallel=2",
    "informed:steps=2,temperature=2",
    "mudm:noise=mask",
    "mudm:resample=true",
    "mudm:resample=true,noise=hybrid",
    "psi:kappa=0",
    "psi:kappa=0,since=0.5",
    "psi:kappa=1,since=0",
    "random-scan:metropolised=true",
    "random-scan:parallel=2",
    "random-scan:steps=2",
    "remasking:schedule=cap,eta=1",
    "remasking:schedule=rescale,eta=1",
    "remasking:schedule=rescale,eta=1,switch=0.55",
    "remasking:schedule=cap,eta=1,switch=0",
    "remasking:schedule=loop,eta=1",
    "remasking:schedule=loop,eta=1,loop_level=0.9,switch=0.2",
    "remasking:schedule=loop,loop_start=0.9,loop_end=0.1",
    "scan:metropolised=true",
    "scan:metropolised=true,parallel=2",
    "scan:parallel=2",
    "scan:steps=2",
)
"""Kernels with their options at the ends of their ranges, or away from the defaults where these have no end."""


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def kernel_of(text: str) -> Predictor | Corrector:
    """A kernel from its name and options."""
    return (PREDICTORS if text.split(":")[0] in PREDICTORS else CORRECTORS).parse(text)


@cache
def process_of(kind: Cell, vocab_size: int = K, length: int = L, schedule: tl.Schedule = EXACT) -> tl.Process:
    """A process of this cell."""
    table = (TABLES[kind](vocab_size, length),) if kind in TABLES else ()
    return kind(vocab_size, *table, schedule=schedule)


def supported(kernel: type[Kernel], cells: list[Cell] = PROCESSES) -> list[Cell]:
    """The cells that a kernel supports."""
    return [kind for kind in cells if kernel.supports(process_of(kind))]


def oracle(kind: Cell, predicts: type[Posterior] = tl.Denoiser, p0: Tensor = P0) -> tl.Oracle:
    return tl.Oracle(p0, process_of(kind, length=p0.ndim), predicts=predicts)


def network(process: tl.Process, length: int, **options: Any) -> DiT | CausalTransformer:
    """A small network for a process, its head away from zero."""
    torch.manual_seed(0)
    sizes = (process.vocab_size, process.input_states, length, 16, 1, 2, 8)
    kind, time = (CausalTransformer, False) if process.sequential else (DiT, True)
    config = TransformerConfig(*sizes, **{"time": time, "absorbing": process.shows_auxiliary} | options)
    made = kind(config)
    torch.nn.init.normal_(made.head.weight)  # type: ignore[arg-type]
    return made


def product(each: Tensor) -> Tensor:
    """Independent positions as a law over sequences: [..., 2, states] to [..., states^2]."""
    return (each[..., 0, :, None] * each[..., 1, None, :]).flatten(-2)


def total_variation(law: Tensor, other: Tensor) -> float:
    return float((law.flatten() - other.flatten()).abs().sum() / 2)


def states(tokens: Tensor, alpha: float, aux: Tensor | None = None) -> tl.Noisy:
    level = torch.full((len(tokens),), alpha, dtype=torch.float64)
    return tl.Noisy(tokens, 1 - level, level, aux)


def repeat(noisy: tl.Noisy, copies: int) -> tl.Noisy:
    return noisy.sequences(torch.arange(len(noisy.tokens)).repeat_interleave(copies))


def step(
    kernel: Predictor,
    model: tl.Model,
    noisy: tl.Noisy,
    alpha_s: float,
    truncation: tl.Truncation | None = None,
    seed: int = 0,
) -> tl.Noisy:
    s = torch.full_like(noisy.t, 1 - alpha_s)
    evaluate = Evaluator(kernel.prepare(model), truncation, len(s))
    return kernel.step(evaluate, noisy, s, torch.Generator().manual_seed(seed))


def advance(kernel: Predictor, model: tl.Model, noisy: tl.Noisy, alpha_s: float, memory: Any) -> tuple[tl.Noisy, Any]:
    """A step of a predictor that remembers something."""
    s = torch.full_like(noisy.t, 1 - alpha_s)
    evaluate = Evaluator(kernel.prepare(model), None, len(s))
    return kernel.advance(evaluate, noisy, s, torch.Generator().manual_seed(0), memory)


def correct(
    kernel: Corrector,
    model: tl.Model,
    noisy: tl.Noisy,
    call: int = 0,
    truncation: tl.Truncation | None = None,
    seed: int = 0,
) -> tl.Noisy:
    kernel.check(model)
    evaluate = Evaluator(model, truncation, len(noisy.tokens))
    return kernel.correct(evaluate, noisy, torch.Generator().manual_seed(seed), call)


def transitions(start: tl.Noisy, arrived: Tensor, number: int) -> Tensor:
    """Counts [starts, outcomes] of outcomes that were drawn equally often from each start, in order."""
    return torch.stack([sequence_counts(part, number) for part in arrived.chunk(len(start.tokens))])


def assert_transitions(counts: Tensor, law: Tensor) -> None:
    """Rows of counts follow rows of the law."""
    assert_frequencies(counts, law / len(law))


def check_step(
    sampler: str,
    model: tl.Model,
    start: tl.Noisy,
    alpha_s: float,
    law: Tensor,
    rows: int = ROWS,
    level: float | None = None,
    outcome: Callable[[tl.Noisy], Tensor] = lambda arrived: arrived.tokens,
) -> None:
    """One step of the named predictor from each start has the law, [starts, outcomes], and arrives at the level."""
    copies = max(rows // len(start.tokens), 1500)
    arrived = step(PREDICTORS.parse(sampler), model, repeat(start, copies), alpha_s)
    if level in (None, alpha_s):
        assert bool((arrived.t == 1 - alpha_s).all())
    else:
        torch.testing.assert_close(arrived.t, torch.full_like(arrived.t, 1 - float(level or 0)))
    assert_transitions(transitions(start, outcome(arrived), round(law.shape[-1] ** (1 / L))), law)


def check_correction(corrector: str, model: tl.Model, start: tl.Noisy, law: Tensor, call: int = 0) -> None:
    """One call of the named corrector from each start has the law, [starts, outcomes]."""
    corrected = correct(CORRECTORS.parse(corrector), model, repeat(start, ROWS // len(start.tokens)), call)
    assert torch.equal(corrected.t[:1], start.t[:1])
    assert_transitions(transitions(start, corrected.tokens, round(law.shape[-1] ** (1 / L))), law)
