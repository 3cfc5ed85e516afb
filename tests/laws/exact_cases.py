"""Every state of a small distribution with its probability, the exact prediction at it, and the loss of both."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tokenloom.objectives import (
    FiniteStep,
    JumpNELBO,
    Objective,
    ScoreEntropy,
    UniformNELBO,
)
from tokenloom.posteriors import Posterior

K, L = 3, 2
P0 = brute.random_p0(K, L)
ENTROPY = -float((P0 * P0.log()).sum())
UNIFORM, MASKED = tl.Uniform(K, schedule=EXACT), tl.Masked(K, schedule=EXACT)
ABSORBING, COUPLED = tl.AbsorbingUniform(K, schedule=EXACT), tl.MaxCoupling(K, schedule=EXACT)
TIGHT: list[tuple[tl.Process, Objective, type[Posterior]]] = [
    (UNIFORM, UniformNELBO(), tl.LeaveOneOut),
    (UNIFORM, UniformNELBO(), tl.Denoiser),
    (UNIFORM, ScoreEntropy(), tl.Score),
    (MASKED, JumpNELBO(), tl.Denoiser),
    (MASKED, JumpNELBO(), tl.LeaveOneOut),
    (MASKED, ScoreEntropy(), tl.Score),
    (ABSORBING, JumpNELBO(), tl.Denoiser),
]
STEPPED: list[tuple[tl.Process, Objective, type[Posterior]]] = [
    (UNIFORM, FiniteStep(4), tl.LeaveOneOut),
    (UNIFORM, FiniteStep(4), tl.Denoiser),
    (MASKED, FiniteStep(4), tl.Denoiser),
    (ABSORBING, FiniteStep(4), tl.Denoiser),
]
Case = tuple[tl.Process, Objective, type[Posterior]]


def label(case: object) -> str | None:
    if isinstance(case, tuple):
        return "-".join([type(case[0]).__name__, type(case[1]).__name__, case[2].__name__])
    return None


def weighted_states(process: tl.Process, t: float) -> tuple[tl.Noisy, Tensor, Tensor]:
    """Every (x_0, x_t, U) of positive probability at time t: the states, x_0 and the probabilities."""
    time = torch.tensor([t], dtype=torch.float64)
    alpha = float(process.alpha(time))
    clean, noisy, absorbing, weight = [], [], [], []
    states = process.num_states
    us: list[list[int] | None] = [None]
    if isinstance(process, tl.AbsorbingUniform):
        us = [list(u) for u in itertools.product(range(K), repeat=L)]
    for u in us:
        if u is not None:
            pi = brute.point_pi(u, K)
        elif isinstance(process, tl.Masked):
            pi = brute.point_pi([process.mask] * L, states)
        else:
            pi = brute.uniform_pi(K, L)
        table = brute.joint(P0, pi, alpha) / len(us)
        row, column = (table > 0).nonzero(as_tuple=True)
        clean.append(brute.sequences(states, L)[row])
        noisy.append(brute.sequences(states, L)[column])
        absorbing.append(torch.tensor(u or [0] * L).expand(len(row), L))
        weight.append(table[row, column])
    tokens = torch.cat(noisy)
    aux = torch.cat(absorbing) if isinstance(process, tl.AbsorbingUniform) else None
    full = time.expand(len(tokens))
    return tl.Noisy(tokens, full, process.alpha(full), aux), torch.cat(clean), torch.cat(weight)


def expected_loss(process: tl.Process, objective: Objective, predicts: type[Posterior], t: float) -> float:
    """The mean loss a sequence at time t, predicted by the oracle."""
    noisy, x_0, weight = weighted_states(process, t)
    prediction = tl.Oracle(P0, process, predicts=predicts).predict(noisy)
    return float((weight * objective.per_token(prediction, x_0, noisy, process).sum(-1)).sum())


def integral(function: Callable[[float], float], nodes: int = 40) -> float:
    """Over [0, 1] by Gauss-Legendre in u with t = sin^2(pi u / 2), which tames logarithms at both ends."""
    points, weights = np.polynomial.legendre.leggauss(nodes)
    total = 0.0
    for u, weight in zip((points + 1) / 2, weights / 2, strict=True):
        total += weight * math.pi / 2 * math.sin(math.pi * u) * function(math.sin(math.pi * u / 2) ** 2)
    return total


def state_index(noisy: tl.Noisy, process: tl.Process) -> Tensor:
    states = process.num_states
    index = noisy.tokens[:, 0] * states + noisy.tokens[:, 1]
    return index if noisy.aux is None else index * K**L + noisy.aux[:, 0] * K + noisy.aux[:, 1]


def oracle_table(process: tl.Process, predicts: type[Posterior], t: float) -> Tensor:
    """The exact posterior at every (x_t, U), impossible states included (any finite value there)."""
    tokens = brute.sequences(process.num_states, L)
    aux = None
    if isinstance(process, tl.AbsorbingUniform):
        tokens, aux = tokens.repeat_interleave(K**L, 0), brute.sequences(K, L).repeat(K**L, 1)
    time = torch.full((len(tokens),), t, dtype=torch.float64)
    predicted = tl.Oracle(P0, process, predicts=predicts).predict(tl.Noisy(tokens, time, process.alpha(time), aux))
    values = predicted.log_ratios if isinstance(predicted, tl.Score) else predicted.logits  # type: ignore[attr-defined]
    return values.nan_to_num(0.0, neginf=-50.0)
