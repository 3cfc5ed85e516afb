"""One step of a kernel from every state at once, counted, beside laws that are independent over positions.

Chi-square tests here pool the starts: with their numbers fixed the statistic has fewer degrees of freedom than it is
tested for, so `FALSE_ALARM` is an upper bound.
"""

import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.statistics import assert_frequencies, sequence_counts
from tokenloom.posteriors import Posterior
from tokenloom.samplers.evaluator import Evaluator, Model
from tokenloom.samplers.kernel import PREDICTORS, Corrector, Predictor, make

K, L = 3, 2
ROWS = 40_000
MASK = K
P0 = brute.random_p0(K, L)
UNIFORM_PI = brute.uniform_pi(K, L)
MASK_PI = brute.point_pi([MASK] * L, K + 1)
SEQUENCES = brute.sequences(K, L)
PROCESSES = (tl.Uniform, tl.Masked, tl.MaxCoupling, tl.AbsorbingUniform, tl.MaskedUniform)


def oracle(kind: type[tl.Process], predicts: type[Posterior] = tl.Denoiser, p0: Tensor = P0) -> tl.Oracle:
    return tl.Oracle(p0, kind(K, schedule=EXACT), predicts=predicts)


def product(each: Tensor) -> Tensor:
    """Independent positions as a law over sequences: [..., 2, states] to [..., states^2]."""
    return (each[..., 0, :, None] * each[..., 1, None, :]).flatten(-2)


def states(tokens: Tensor, alpha: float, aux: Tensor | None = None) -> tl.Noisy:
    level = torch.full((len(tokens),), alpha, dtype=torch.float64)
    return tl.Noisy(tokens, 1 - level, level, aux)


def repeat(noisy: tl.Noisy, copies: int) -> tl.Noisy:
    return noisy.sequences(torch.arange(len(noisy.tokens)).repeat_interleave(copies))


def step(
    kernel: Predictor,
    model: Model,
    noisy: tl.Noisy,
    alpha_s: float,
    truncation: tl.Truncation | None = None,
    seed: int = 0,
) -> tl.Noisy:
    s = torch.full_like(noisy.t, 1 - alpha_s)
    evaluate = Evaluator(kernel.prepare(model), truncation, len(s))
    return kernel.step(evaluate, noisy, s, torch.Generator().manual_seed(seed))


def correct(
    kernel: Corrector,
    model: Model,
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
    sampler: str, model: Model, start: tl.Noisy, alpha_s: float, law: Tensor, rows: int = ROWS, seed: int = 0
) -> None:
    """One step of the named predictor from each start has the law, [starts, outcomes]."""
    copies = max(rows // len(start.tokens), 1500)
    arrived = step(make(sampler, PREDICTORS), model, repeat(start, copies), alpha_s, seed=seed)
    assert bool((arrived.t == 1 - alpha_s).all())
    assert_transitions(transitions(start, arrived.tokens, round(law.shape[-1] ** (1 / L))), law)
