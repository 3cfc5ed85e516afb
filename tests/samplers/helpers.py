"""Every process as the tests build it, and one step of a kernel from every state at once, counted.

Chi-square tests here pool the starts: with their numbers fixed the statistic has fewer degrees of freedom than it is
tested for, so `FALSE_ALARM` is an upper bound.
"""

from typing import Any

import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.posteriors import Posterior
from tokenloom.processes import PROCESSES as REGISTERED
from tokenloom.samplers import CORRECTORS, PREDICTORS, Corrector, Evaluator, Kernel, Predictor

K, L = 3, 2
ROWS = 40_000
MASK = K
P0 = brute.random_p0(K, L)
UNIFORM_PI = brute.uniform_pi(K, L)
MASK_PI = brute.point_pi([MASK] * L, K + 1)
TABLE_PI = brute.random_pi(K, L)
SEQUENCES = brute.sequences(K, L)
PROCESSES: list[type[tl.Process]] = [REGISTERED[name] for name in REGISTERED if not REGISTERED[name].sequential]
"""All that are registered and see every position."""
KERNELS: dict[str, type[Kernel]] = {**PREDICTORS, **CORRECTORS}


def process_of(
    kind: type[tl.Process], vocab_size: int = K, length: int = L, schedule: tl.Schedule = EXACT
) -> tl.Process:
    """A process of this class; a table of noise is random and positive."""
    if kind is tl.Interpolating:
        return tl.Interpolating(vocab_size, brute.random_pi(vocab_size, length), schedule=schedule)
    return kind(vocab_size, schedule=schedule)


def served(kernel: type[Kernel]) -> list[type[tl.Process]]:
    """The processes that a kernel supports."""
    return [kind for kind in PROCESSES if kernel.supports(process_of(kind))]


def oracle(kind: type[tl.Process], predicts: type[Posterior] = tl.Denoiser, p0: Tensor = P0) -> tl.Oracle:
    return tl.Oracle(p0, process_of(kind, length=p0.ndim), predicts=predicts)


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
    table = [sequence_counts(part, number) for part in arrived.chunk(len(start.tokens))]
    return torch.stack(table)


def assert_transitions(counts: Tensor, law: Tensor) -> None:
    """Rows of counts follow rows of the law."""
    assert_frequencies(counts, law / len(law))


def check_step(
    sampler: str, model: tl.Model, start: tl.Noisy, alpha_s: float, law: Tensor, rows: int = ROWS, seed: int = 0
) -> None:
    """One step of the named predictor from each start has the law, [starts, outcomes]."""
    copies = max(rows // len(start.tokens), 1500)
    arrived = step(PREDICTORS.parse(sampler), model, repeat(start, copies), alpha_s, seed=seed)
    assert bool((arrived.t == 1 - alpha_s).all())
    assert_transitions(transitions(start, arrived.tokens, round(law.shape[-1] ** (1 / L))), law)
