"""Whole runs through the driver: the joint law of all visited states, and where the lifted chains end.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT
from tests.samplers import helpers
from tests.samplers.helpers import (
    P0,
    SEQUENCES,
    TABLES,
    Cell,
    K,
    L,
    oracle,
    table_absorbing,
    table_maximal,
    total_variation,
)
from tests.samplers.laws import denoiser, hybrid_joint, hybrid_reverse, markov_bridges
from tests.samplers.test_convergence import ancestral_end
from tests.statistics import assert_frequencies, sequence_counts

ROWS = 30_000
LEVELS = [0.0, 1 / 3, 2 / 3, 1.0]
P1 = brute.random_p0(K, 1)


def trajectory(model: tl.Oracle, sampler: str, steps: int, seed: int = 0, rows: int = ROWS) -> Tensor:
    """Tokens at every time, [rows, times * length]."""
    visited: list[Tensor] = []

    def record(step: tl.Step) -> None:
        if not visited:
            visited.append(step.before.tokens)
        visited.append(step.after.tokens)

    tl.sample(model, rows, steps=steps, sampler=sampler, generator=torch.Generator().manual_seed(seed), on_step=record)
    return torch.cat(visited, 1)


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        (tl.AbsorbingUniform, "reaudm"),
        (tl.Masked, "mudm:resample=true"),
        (tl.MaskedUniform, "mudm:resample=true"),
        (tl.Uniform, "ancestral"),
        (tl.Uniform, "gillespie"),
        (table_absorbing, "reaudm"),
        (helpers.table_times, "mudm:resample=true"),
        (tl.Interpolating, "ancestral"),
        (helpers.table_zeros, "ancestral"),
        (helpers.table_zeros, "gillespie"),
    ],
)
def test_trajectory_is_the_reverse_chain_of_markov_diffusion_with_the_same_noise(kind: Cell, sampler: str) -> None:
    """L = 1, where nothing is factorised: the joint law of x_1, x_{2/3}, x_{1/3} and x_0."""
    pi = TABLES[kind](K, 1) if kind in TABLES else brute.uniform_pi(K, 1)
    kernels = [brute.reverse_kernel(P1, pi, alpha_s, alpha_t) for alpha_t, alpha_s in itertools.pairwise(LEVELS)]
    exact = brute.path_law(brute.marginal(P1, pi, 0.0), [kernel.nan_to_num() for kernel in kernels])
    model = oracle(kind, p0=P1)
    rows = 8_000 if sampler == "gillespie" else ROWS
    assert_frequencies(sequence_counts(trajectory(model, sampler, 3, rows=rows), K), exact)


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [(tl.Hybrid, "ancestral"), (tl.Hybrid, "gillespie"), (tl.Masked, "mudm:resample=true,noise=hybrid")],
)
def test_trajectory_is_the_reverse_chain_of_hybrid_diffusion(kind: Cell, sampler: str) -> None:
    """Driven by a masked model too: where noise moves with t, times that are redrawn give the Markov chain."""
    kernels = [hybrid_reverse(P1, 1 - alpha_s, 1 - alpha_t) for alpha_t, alpha_s in itertools.pairwise(LEVELS)]
    exact = brute.path_law(hybrid_joint(P1, 1.0).sum(0), kernels)
    rows = 8_000 if sampler == "gillespie" else ROWS
    found = trajectory(oracle(kind, p0=P1), sampler, 3, rows=rows)
    assert_frequencies(sequence_counts(found, K + 1), exact)


def test_trajectory_of_fixed_absorbing_states_is_not_that_of_uniform_diffusion() -> None:
    """Given U a token moves at most once, which the joint law of three times shows."""
    model = tl.Oracle(P1, tl.AbsorbingUniform(K, schedule=EXACT), predicts=tl.Denoiser)
    visited = trajectory(model, "ancestral", 3)
    moves = (visited.diff(dim=1) != 0).sum(1)
    assert int(moves.max()) == 1
    assert int((trajectory(model, "reaudm", 3).diff(dim=1) != 0).sum(1).max()) > 1


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        (tl.AbsorbingUniform, "ancestral"),
        (tl.Masked, "mudm"),
        (tl.MaskedUniform, "ancestral"),
        (tl.MaxCoupling, "ancestral"),
        (table_absorbing, "ancestral"),
        (helpers.table_times, "ancestral"),
        (table_maximal, "ancestral"),
        (table_maximal, "psi:kappa=0"),
        (tl.Uniform, "psi:kappa=0.3"),
        (tl.Masked, "remasking:eta=0.7"),
        (tl.Masked, "remasking:schedule=loop,eta=0.7"),
        (tl.Masked, "remasking:schedule=loop,eta=1"),
    ],
)
def test_chain_ends_in_p_0_for_one_position_whatever_the_steps(kind: Cell, sampler: str) -> None:
    model = oracle(kind, p0=P1)
    for steps in (1, 2, 5):
        visited = trajectory(model, sampler, steps, seed=steps)
        assert_frequencies(torch.bincount(visited[:, -1], minlength=K), P1)


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        (tl.AbsorbingUniform, "ancestral"),
        (tl.Masked, "mudm"),
        (tl.MaxCoupling, "ancestral"),
        (tl.Uniform, "psi:kappa=0.3"),
        (table_absorbing, "ancestral"),
        (helpers.table_times, "ancestral"),
        (table_maximal, "ancestral"),
        (table_maximal, "psi:kappa=0"),
    ],
)
def test_marginals_on_the_way_are_those_of_markov_diffusion_for_one_position(kind: Cell, sampler: str) -> None:
    visited = trajectory(oracle(kind, p0=P1), sampler, 3)
    pi = TABLES[kind](K, 1) if kind in TABLES else brute.uniform_pi(K, 1)
    for alpha, tokens in zip(LEVELS, visited.unbind(1), strict=True):
        assert_frequencies(torch.bincount(tokens, minlength=K), brute.marginal(P1, pi, alpha))


# ----------------------------------------------------------------------------- several positions, drawn one by one


def lifted_step(kind: Cell, alpha_s: float, alpha_t: float) -> Tensor:
    """The kernel over (x, U) or (x, lost flags) when x_0 is drawn position by position: [starts, starts]."""
    eye = torch.eye(K, dtype=torch.float64)
    if kind is tl.AbsorbingUniform:
        tokens, mu = SEQUENCES.repeat_interleave(K**L, 0), denoiser(kind, alpha_t).nan_to_num()
        redrawn = alpha_s * eye.unsqueeze(-1) + (1 - alpha_s) * eye.expand(K, K, K)  # [x_0, x_s, U]
    else:
        lost = brute.sequences(2, L).repeat(K**L, 1)
        tokens = SEQUENCES.repeat_interleave(2**L, 0)
        view = (tokens.masked_fill(lost.bool(), K) * torch.tensor([K + 1, 1])).sum(-1)
        mu = denoiser(tl.Masked, alpha_t)[view][..., :K]
        redrawn = torch.stack([alpha_s * eye, torch.full_like(eye, (1 - alpha_s) / K)], -1)  # [x_0, x_s, lost]
    total = redrawn.sum(-1, keepdim=True)
    redrawn = redrawn / total.where(total > 0, 1)
    each = torch.einsum("nlo,nlos,osv->nlsv", mu, markov_bridges(tl.Uniform, tokens, alpha_s, alpha_t), redrawn)
    kernel: Tensor = torch.einsum("nsv,ntw->nstvw", each[:, 0], each[:, 1])
    return kernel.flatten(1)


def end_of_lifted_chain(kind: Cell, steps: int) -> Tensor:
    """The exact law of the output."""
    if kind is tl.AbsorbingUniform:
        law: Tensor = torch.eye(K**L, dtype=torch.float64).flatten() / K**L
    else:
        law = (torch.tensor([0.0, 0.0, 0.0, 1.0]).double() / K**L).repeat(K**L)
    for index in range(steps):
        law = law @ lifted_step(kind, (index + 1) / steps, index / steps)
    return law.view(K**L, -1).sum(1)


@pytest.mark.parametrize(("kind", "sampler"), [(tl.AbsorbingUniform, "reaudm"), (tl.Masked, "mudm:resample=true")])
def test_resampled_chains_come_close_to_p_0_but_not_to_it_for_two_positions(kind: Cell, sampler: str) -> None:
    """The redrawn variable forgets the joint law of x_0 at every step.  The sampler has the law of the enumerated
    chain, and with 8 times the steps the distance of that to p_0 falls by less than 7, unlike ancestral's."""
    model = tl.Oracle(P0, kind(K, schedule=EXACT), predicts=tl.Denoiser)
    visited = trajectory(model, sampler, 3)
    assert_frequencies(sequence_counts(visited[:, -L:], K), end_of_lifted_chain(kind, 3))
    few, many = (total_variation(end_of_lifted_chain(kind, steps), P0) for steps in (16, 128))
    assert many < 0.005
    assert few / many < 7
    few, many = (total_variation(ancestral_end(tl.Uniform, steps), P0) for steps in (16, 128))
    assert 7.5 < few / many < 8.5
