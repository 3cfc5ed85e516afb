"""Every state of a small distribution with its probability, the exact prediction at it, and the loss of both."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.grid import COUPLINGS, NOISES, P0, Cell, K, L, process_of
from tokenloom.objectives import FiniteStep, JumpNELBO, MarkovNELBO, Objective, RateNELBO, ScoreEntropy
from tokenloom.posteriors import Posterior

ENTROPY = -float((P0 * P0.log()).sum())
UNIFORM, MASKED = process_of("uniform", "markov"), process_of("mask", "markov")
INTERPOLATING, HYBRID = process_of("table", "markov"), process_of("hybrid", "markov")
ABSORBING, COUPLED = process_of("uniform", "absorbing"), process_of("uniform", "maximal")
ABSORBING_TABLE, ZEROS = process_of("table", "absorbing"), process_of("zeros", "markov")
Case = tuple[tl.Process, Objective, type[Posterior]]
TIGHT: list[Case] = [
    (UNIFORM, MarkovNELBO(), tl.LeaveOneOut),
    (UNIFORM, MarkovNELBO(), tl.Denoiser),
    (UNIFORM, ScoreEntropy(), tl.Score),
    (MASKED, JumpNELBO(), tl.Denoiser),
    (MASKED, JumpNELBO(), tl.LeaveOneOut),
    (MASKED, ScoreEntropy(), tl.Score),
    (ABSORBING, JumpNELBO(), tl.Denoiser),
    (ABSORBING_TABLE, JumpNELBO(), tl.Denoiser),
    (INTERPOLATING, MarkovNELBO(), tl.LeaveOneOut),
    (INTERPOLATING, MarkovNELBO(), tl.Denoiser),
    (INTERPOLATING, RateNELBO(), tl.LeaveOneOut),
    (INTERPOLATING, RateNELBO(), tl.Denoiser),
    (INTERPOLATING, RateNELBO(), tl.Score),
]
STEPPED: list[Case] = [
    (UNIFORM, FiniteStep(4), tl.LeaveOneOut),
    (UNIFORM, FiniteStep(4), tl.Denoiser),
    (MASKED, FiniteStep(4), tl.Denoiser),
    (ABSORBING, FiniteStep(4), tl.Denoiser),
    (INTERPOLATING, FiniteStep(4), tl.LeaveOneOut),
    (INTERPOLATING, FiniteStep(4), tl.Denoiser),
]


def label(case: object) -> str | None:
    if isinstance(case, tuple):
        return "-".join([case[0].name, type(case[1]).__name__, case[2].__name__])
    return None


@cache
def weighted_states(process: tl.Process, t: float) -> tuple[tl.Noisy, Tensor, Tensor]:
    """Every (x_0, x_t, U) of positive probability at time t: the states, x_0 and the probabilities."""
    noise = next(name for name in NOISES if NOISES[name] == process.noise)
    coupling = next(name for name in COUPLINGS if COUPLINGS[name] == process.coupling)
    lost = float(process.schedule.lost(torch.tensor([t], dtype=torch.float64)))
    cell = Cell(noise, coupling, lost / 2, lost)
    row, pair = (cell.states[2].flatten(1) > 0).nonzero(as_tuple=True)
    time = torch.full((len(row),), t, dtype=torch.float64)
    noisy = replace(cell.noisy.sequences(row), t=time, alpha_t=process.alpha(time))
    return noisy, brute.sequences(K, L)[pair], cell.states[2].flatten(1)[row, pair]


def expected_losses(
    process: tl.Process, objective: Objective, predicts: type[Posterior], times: Sequence[float]
) -> Tensor:
    """The mean loss per sequence at each time, predicted by the oracle."""
    states, clean, weights = zip(*(weighted_states(process, t) for t in times), strict=True)
    x_0, weight = torch.cat(clean), torch.cat(weights)
    t = torch.cat([state.t for state in states])
    aux = None if states[0].aux is None else torch.cat([state.aux for state in states])
    noisy = tl.Noisy(torch.cat([state.tokens for state in states]), t, process.alpha(t), aux)
    prediction = tl.Oracle(P0, process, predicts=predicts).predict(noisy)
    losses = weight * objective.per_token(prediction, x_0, noisy, process).sum(-1)
    which = torch.arange(len(times)).repeat_interleave(torch.tensor([len(part) for part in weights]))
    return torch.zeros(len(times), dtype=losses.dtype).index_add(0, which, losses)


def quadrature(nodes: int = 48) -> tuple[Tensor, Tensor]:
    """Times and weights of an integral over t in [0, 1]: Gauss-Legendre in v with t = sin^2(pi u/2), u = v^2 (3 - 2 v).

    The substitution tames logarithms and roots at both ends.
    """
    v, weights = (torch.from_numpy(part) / 2 for part in np.polynomial.legendre.leggauss(nodes))
    v = v + 0.5
    u = v * v * (3 - 2 * v)
    return torch.sin(math.pi * u / 2) ** 2, weights * 6 * v * (1 - v) * math.pi / 2 * torch.sin(math.pi * u)


def integral(process: tl.Process, objective: Objective, predicts: type[Posterior]) -> float:
    """The mean loss per sequence, predicted by the oracle, integrated over t in [0, 1]."""
    times, weights = quadrature()
    return float((weights * expected_losses(process, objective, predicts, times.tolist())).sum())


def price_of_the_start(p0: Tensor, pi: Tensor, eps: float) -> float:
    """What starting from the prior costs, with a signal eps left at t = 1: KL(p_1 || pi) if pi covers the vocabulary.

    Else the one step from the prior draws the two positions independently, which costs their total correlation at p_1.
    """
    p_1, prior = brute.marginal(p0, pi, eps), brute.kernel(0.0, pi)[0]
    if bool((pi == 0).any()):
        table = p_1.view(pi.shape[1], -1)
        prior = torch.outer(table.sum(1), table.sum(0)).flatten()
    return float((torch.xlogy(p_1, p_1) - torch.xlogy(p_1, prior)).sum())


def state_index(noisy: tl.Noisy, process: tl.Process) -> Tensor:
    states = process.num_states
    index = noisy.tokens[:, 0] * states + noisy.tokens[:, 1]
    return index if noisy.aux is None else index * K**L + noisy.aux[:, 0] * K + noisy.aux[:, 1]


def oracle_table(process: tl.Process, predicts: type[Posterior], t: float) -> Tensor:
    """The exact posterior at every (x_t, U), impossible states included (any finite value there)."""
    tokens = brute.sequences(process.num_states, L)
    aux = None
    if process.lifted:
        tokens, aux = tokens.repeat_interleave(K**L, 0), brute.sequences(K, L).repeat(K**L, 1)
    time = torch.full((len(tokens),), t, dtype=torch.float64)
    predicted = tl.Oracle(P0, process, predicts=predicts).predict(tl.Noisy(tokens, time, process.alpha(time), aux))
    values = predicted.log_ratios if isinstance(predicted, tl.Score) else predicted.logits  # type: ignore[attr-defined]
    return values.nan_to_num(0.0, neginf=-50.0)
