"""Whole runs through the driver: the joint law of all visited states, and where the lifted chains end.

The false-alarm rate of a chi-square test is at most 1e-6.
"""

import itertools

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.samplers import helpers
from tests.samplers.helpers import MASK, P0, SEQUENCES, TABLES, Cell, K, L, generator, oracle, total_variation
from tests.samplers.laws import chain_end, denoiser, hybrid_joint, hybrid_reverse, markov_bridges, masked_view, redrawn
from tests.samplers.test_convergence import end
from tests.statistics import assert_frequencies, sequence_counts

ROWS = 30_000
LEVELS = [0.0, 1 / 3, 2 / 3, 1.0]
P1 = brute.random_p0(K, 1)


def trajectory(model: tl.Oracle, sampler: str, steps: int, seed: int = 0) -> Tensor:
    """Tokens at every time, [rows, times * length]."""
    rows = 8_000 if sampler == "gillespie" else ROWS
    run = list(tl.Sampler.parse(sampler, steps=steps, grid="uniform").steps(model, rows, generator=generator(seed)))
    return torch.cat([run[0].before.tokens, *(step.tokens for step in run)], 1)


def noise(kind: Cell, sampler: str) -> Tensor:
    """The law of a lost token at one position: [1, states]."""
    if sampler.startswith("remasking"):
        return brute.point_pi([MASK], K + 1)
    return TABLES[kind](K, 1) if kind in TABLES else brute.uniform_pi(K, 1)


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        (tl.AbsorbingUniform, "reaudm"),
        (tl.Masked, "mudm:resample=true"),
        (tl.MaskedUniform, "mudm:resample=true"),
        (tl.Uniform, "ancestral"),
        (tl.Uniform, "gillespie"),
        (helpers.table_absorbing, "reaudm"),
        (helpers.table_times, "mudm:resample=true"),
        (tl.Interpolating, "ancestral"),
        (helpers.table_zeros, "ancestral"),
        (helpers.table_zeros, "gillespie"),
        (tl.Hybrid, "ancestral"),
        (tl.Hybrid, "gillespie"),
        (tl.Masked, "mudm:resample=true,noise=hybrid"),
    ],
)
def test_trajectory_is_the_reverse_chain_of_markov_diffusion_with_the_same_noise(kind: Cell, sampler: str) -> None:
    """L = 1, where nothing is factorised: the joint law of x_1, x_{2/3}, x_{1/3} and x_0."""
    hybrid, pi = kind is tl.Hybrid or "hybrid" in sampler, noise(kind, sampler)
    kernels = [
        hybrid_reverse(P1, 1 - alpha_s, 1 - alpha_t) if hybrid else brute.reverse_kernel(P1, pi, alpha_s, alpha_t)
        for alpha_t, alpha_s in itertools.pairwise(LEVELS)
    ]
    prior = hybrid_joint(P1, 1.0).sum(0) if hybrid else brute.marginal(P1, pi, 0.0)
    exact = brute.path_law(prior, [kernel.nan_to_num() for kernel in kernels])
    assert_frequencies(sequence_counts(trajectory(oracle(kind, p0=P1), sampler, 3), len(prior)), exact)


def test_trajectory_of_fixed_absorbing_states_is_not_that_of_uniform_diffusion() -> None:
    """Given U a token moves at most once, which the joint law of three times shows."""
    fixed, redrawn = (
        (trajectory(oracle(tl.AbsorbingUniform, p0=P1), sampler, 3).diff(dim=1) != 0).sum(1)
        for sampler in ("ancestral", "reaudm")
    )
    assert int(fixed.max()) == 1
    assert int(redrawn.max()) > 1


@pytest.mark.parametrize(
    ("kind", "sampler"),
    [
        (tl.AbsorbingUniform, "ancestral"),
        (tl.Masked, "mudm"),
        (tl.MaskedUniform, "ancestral"),
        (tl.MaxCoupling, "ancestral"),
        (helpers.table_absorbing, "ancestral"),
        (helpers.table_times, "ancestral"),
        (helpers.table_maximal, "ancestral"),
        (helpers.table_maximal, "psi:kappa=0"),
        (tl.Uniform, "psi:kappa=0.3"),
        (tl.Masked, "remasking:eta=0.7"),
        (tl.Masked, "remasking:schedule=loop,eta=0.7"),
        (tl.Masked, "remasking:schedule=loop,eta=1"),
        (tl.Masked, "remasking:schedule=loop,eta=1,loop_level=0.9"),
        (tl.Masked, "remasking:schedule=cap,eta=0.7,switch=0.5"),
    ],
)
def test_marginals_of_one_position_are_those_of_markov_diffusion_whatever_the_steps(kind: Cell, sampler: str) -> None:
    """At every time of a run, and p_0 at its end; the states of a loop say other times than the grid."""
    pi = noise(kind, sampler)
    for steps, seed in ((1, 1), (2, 2), (3, 0), (5, 5)):
        visited = trajectory(oracle(kind, p0=P1), sampler, steps, seed).unbind(1)
        for index, tokens in enumerate(visited):
            if "loop" not in sampler or index == steps:
                law = brute.marginal(P1, pi, index / steps)
                assert_frequencies(torch.bincount(tokens, minlength=len(law)), law)


# ----------------------------------------------------------------------------- several positions, drawn one by one


def lifted_step(kind: Cell, alpha_s: float, alpha_t: float) -> Tensor:
    """The kernel over (x, U) or (x, lost flags) when x_0 is drawn position by position: [starts, starts]."""
    lost = brute.sequences(2, L).repeat(K**L, 1).bool()
    tokens = SEQUENCES.repeat_interleave(K**L if kind is tl.AbsorbingUniform else 2**L, 0)
    absorbing = kind is tl.AbsorbingUniform
    mu = denoiser(kind, alpha_t).nan_to_num() if absorbing else masked_view(tokens, lost, alpha_t)
    bridges = markov_bridges(tl.Uniform, tokens, alpha_s, alpha_t)
    each = torch.einsum("nlo,nlos,losv->nlsv", mu, bridges, redrawn(kind if absorbing else tl.Uniform, alpha_s))
    kernel: Tensor = torch.einsum("nsv,ntw->nstvw", each[:, 0], each[:, 1])
    return kernel.flatten(1)


def end_of_lifted_chain(kind: Cell, steps: int) -> Tensor:
    """The exact law of the output, from x_1 = U or from tokens that are all lost."""
    if kind is tl.AbsorbingUniform:
        prior: Tensor = torch.eye(K**L, dtype=torch.float64).flatten() / K**L
    else:
        prior = (torch.tensor([0.0, 0.0, 0.0, 1.0]).double() / K**L).repeat(K**L)
    kernels = [lifted_step(kind, (index + 1) / steps, index / steps) for index in range(steps)]
    return chain_end(kernels, prior).view(K**L, -1).sum(1)


@pytest.mark.parametrize(("kind", "sampler"), [(tl.AbsorbingUniform, "reaudm"), (tl.Masked, "mudm:resample=true")])
def test_resampled_chains_come_close_to_p_0_but_not_to_it_for_two_positions(kind: Cell, sampler: str) -> None:
    """The redrawn variable forgets the joint law of x_0 at every step.  The sampler has the law of the enumerated
    chain, and with 8 times the steps the distance of that to p_0 falls by less than 7, unlike ancestral's."""
    visited = trajectory(oracle(kind), sampler, 3)
    assert_frequencies(sequence_counts(visited[:, -L:], K), end_of_lifted_chain(kind, 3))
    few, many = (total_variation(end_of_lifted_chain(kind, steps), P0) for steps in (16, 128))
    assert many < 0.005
    assert few / many < 7
    few, many = (total_variation(end("ancestral", tl.Uniform, steps), P0) for steps in (16, 128))
    assert 7.5 < few / many < 8.5
