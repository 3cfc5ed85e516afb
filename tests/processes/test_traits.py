"""Every registered process is what its traits say, found by enumeration of its own laws.

`PROCESSES` names them, so a process that registers is checked here, and asked for a case where it needs more than K.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT, assert_close
from tokenloom.processes.base import PROCESSES
from tokenloom.processes.noise import Noise

K = 3
PARTIAL = torch.tensor([[0.6, 0.4, 0.0]], dtype=torch.float64)
CASES: list[tl.Process] = [
    tl.Uniform(K, schedule=EXACT),
    tl.Masked(K, schedule=EXACT),
    tl.Masked(K, mask_id=1, schedule=EXACT),
    tl.MaxCoupling(K, schedule=EXACT),
    tl.AbsorbingUniform(K, schedule=EXACT),
    tl.MaskedUniform(K, schedule=EXACT),
    tl.Interpolating(K, brute.random_pi(K, 1), schedule=EXACT),
    tl.Interpolating(K, PARTIAL, schedule=EXACT),
    tl.Hybrid(K),
    tl.Hybrid(K, mask_id=1, p_uniform=0.4),
    tl.LeftToRight(K, schedule=EXACT),
]
at_random = [process for process in CASES if not process.sequential]


def label(process: object) -> str:
    return type(process).__name__


every_process = pytest.mark.parametrize("process", at_random, ids=label)


def clean_tokens(process: tl.Process) -> list[int]:
    return [token for token in range(K) if token != process.mask_in_vocabulary]


def states(process: tl.Process, t: float) -> tuple[tl.Noisy, Tensor]:
    """Every (x_0, aux, x_t) of positive probability at one position, and x_0; tau lies in ten even places."""
    tau = (torch.arange(10, dtype=torch.float64) + 0.5) / 10
    drawn = process.corrupt(torch.tensor([[clean_tokens(process)[0]]]), torch.tensor([t], dtype=torch.float64)).aux
    values = torch.zeros(1) if drawn is None else tau if drawn.is_floating_point() else torch.arange(K)
    x_0 = torch.tensor(clean_tokens(process)).repeat_interleave(len(values))
    aux = values.repeat(len(x_0) // len(values))
    times = torch.full((len(x_0),), t, dtype=torch.float64)
    start = tl.Noisy(x_0[:, None], times, process.alpha(times), None if drawn is None else aux[:, None])
    row, token = (process.marginal(start, start.tokens).dense().squeeze(1) > 0).nonzero(as_tuple=True)
    return replace(start.sequences(row), tokens=token[:, None]), start.tokens[row]


def test_every_registered_process_has_a_case() -> None:
    registered = {PROCESSES[name] for name in PROCESSES}
    own = {kind for kind in registered if kind.__module__.startswith("tokenloom.")}
    assert {type(process) for process in CASES} == own


@every_process
def test_reveals_says_whether_a_token_may_tell_its_clean_token(process: tl.Process) -> None:
    evidence = torch.cat([process.evidence(states(process, t)[0]) for t in (0.05, 0.5, 0.95)])
    assert process.reveals == bool(evidence.isposinf().any())
    assert process.all_or_nothing == bool(((evidence == 0) | evidence.isposinf()).all())


@every_process
def test_evidence_is_the_log_ratio_of_the_forward_law(process: tl.Process) -> None:
    """log q(x_t | x_0 = x_t, aux) - log q(x_t | x_0 = k, aux) for every other k; a mask is as likely under every k."""
    noisy, _ = states(process, 0.5)
    laws = [process.marginal(noisy, torch.full_like(noisy.tokens, token)).dense() for token in clean_tokens(process)]
    likelihood = torch.stack([law.gather(-1, noisy.tokens.unsqueeze(-1)) for law in laws], -1).flatten(1)
    same = noisy.tokens == torch.tensor(clean_tokens(process))
    own = torch.where(same.any(1), (likelihood * same).sum(1), likelihood[:, 0])
    ratio = own.log()[:, None] - likelihood.log()
    assert_close(process.evidence(noisy).expand_as(ratio)[~same], ratio[~same])


def noise_at(process: tl.Process, t: float) -> tuple[Noise, tl.Noisy]:
    noisy, _ = states(process, t)
    return process.noise(noisy), noisy


@every_process
def test_noise_is_uniform_or_a_point_as_stated(process: tl.Process) -> None:
    tables = []
    for t in (0.2, 0.8):
        noise, noisy = noise_at(process, t)
        tables.append(noise.log_probs().exp().expand(*noisy.tokens.shape, process.num_states).flatten(0, 1))
    pi = torch.cat(tables)
    uniform = torch.full((K,), 1 / K, dtype=torch.float64)
    assert process.uniform_noise == (process.num_states == K and torch.allclose(pi, uniform.expand_as(pi)))
    assert process.point_noise == bool((pi.amax(-1) == 1).all())
    mask = getattr(process, "mask", process.num_states)
    assert process.mask_states == any(bool((states(process, t)[0].tokens == mask).any()) for t in (0.2, 0.8))
    assert process.masking == (mask < process.num_states and bool((pi[:, mask] == 1).all()))


@every_process
def test_lifted_says_whether_a_state_carries_an_auxiliary_variable(
    process: tl.Process, generator: torch.Generator
) -> None:
    x_0 = torch.full((4, 1), clean_tokens(process)[0])
    t = torch.full((4,), 0.5, dtype=torch.float64)
    noisy = process.corrupt(x_0, t, generator)
    assert process.lifted == (noisy.aux is not None) == (process.prior(4, 1, generator).aux is not None)
    assert process.lifted == (process.averaged is not process)
    assert process.shows_auxiliary == (process.network_input(noisy).absorbing is not None)
    again = process.resample(x_0, noisy.tokens, t, generator)
    assert process.lifted == (again is not None)
    if again is not None and noisy.aux is not None:
        assert (again.shape, again.dtype) == (noisy.aux.shape, noisy.aux.dtype)


@every_process
def test_one_way_says_whether_a_step_ends_at_x_t_or_at_x_0(process: tl.Process) -> None:
    """The support of q(x_s | x_t, x_0, aux), for every state: nowhere else, if one-way."""
    noisy, x_0 = states(process, 0.8)
    support = process.bridge(noisy, torch.full_like(noisy.t, 0.3), x_0).dense().squeeze(1) > 0
    for tokens in (noisy.tokens, x_0):
        support = support.scatter(1, tokens, False)
    assert process.one_way == (not bool(support.any()))


@every_process
def test_markov_says_whether_the_forward_step_depends_on_x_0(process: tl.Process) -> None:
    """q(x_t | x_s, x_0, aux) from the reverse bridge by Bayes' rule, for every x_0: the same law, if Markov."""
    s, t = 0.3, 0.8
    later, clean = states(process, t)
    bridge = process.bridge(later, torch.full_like(later.t, s), clean).dense().squeeze(1)
    marginal = process.marginal(later, clean).dense().squeeze(1).gather(1, later.tokens)
    joint = bridge * marginal  # [state at t, x_s]
    laws: dict[tuple[float, int], dict[int, Tensor]] = {}
    aux = torch.zeros(len(clean), 1) if later.aux is None else later.aux
    for value in sorted(set(aux.flatten().tolist())):
        for x_0 in clean_tokens(process):
            rows = ((aux == value) & (clean == x_0)).squeeze(1)
            pair = torch.zeros(process.num_states, process.num_states, dtype=torch.float64)
            pair[:, later.tokens[rows].squeeze(1)] = joint[rows].T
            for x_s in (pair.sum(1) > 1e-12).nonzero().flatten().tolist():
                laws.setdefault((value, x_s), {})[x_0] = pair[x_s] / pair[x_s].sum()
    spread = max(
        float((law - other).abs().max()) for each in laws.values() for law in each.values() for other in each.values()
    )
    assert process.markov == (spread < 1e-10)
    if not process.markov:
        with pytest.raises(ValueError, match="is not Markov"):
            process.forward(later, torch.full_like(later.t, 0.9))


@pytest.mark.parametrize(
    "process", [each for each in CASES if each.has_jump_rates and each.has_rate_integral], ids=label
)
def test_level_after_inverts_the_integral_of_the_largest_rate(process: tl.Process) -> None:
    """The rate of leaving x_t for a prediction elsewhere, integrated from alpha to the level found, is `waiting`."""
    alpha, waiting = 0.3, 0.7
    reached = float(process.level_after(torch.tensor([alpha]).double(), torch.tensor([waiting]).double()))
    assert alpha < reached < 1
    points, weights = np.polynomial.legendre.leggauss(20)
    levels = (alpha + reached + (reached - alpha) * points) / 2
    largest = [float(process.rate_bound(states(process, 1 - level)[0]).max()) for level in levels]
    assert float(weights @ np.array(largest)) * (reached - alpha) / 2 == pytest.approx(waiting, rel=1e-6)


@pytest.mark.parametrize("kind", [tl.MaxCoupling, tl.MaskedUniform, tl.AbsorbingUniform, tl.Masked, tl.LeftToRight])
def test_no_process_is_a_uniform_one_in_disguise(kind: type[tl.Process]) -> None:
    assert not issubclass(kind, tl.Uniform)
    process = kind(K)
    assert process.averaged == (tl.Uniform(K) if process.lifted else process)


def test_left_to_right_writes_one_position_after_the_other(generator: torch.Generator) -> None:
    """4 positions: x_t agrees with x_0 on the first (1 - t) 4; the others are noise, and none says anything."""
    process, count = tl.LeftToRight(50), 400
    x_0 = torch.randint(0, 50, (count, 4), generator=generator)
    for written, t in ((4, 0.0), (3, 0.25), (1, 0.75), (0, 1.0)):
        noisy = process.corrupt(x_0, torch.full((count,), t), generator)
        assert torch.equal(noisy.tokens[:, :written], x_0[:, :written])
        assert ((noisy.tokens[:, written:] == x_0[:, written:]).double().mean() < 0.1) or written == 4
        assert process.evidence(noisy).abs().max() == 0
    assert process.sequential
    assert not any((process.reveals, process.lifted, process.has_jump_rates, process.markov))


def test_processes_of_another_table_are_others() -> None:
    table = brute.random_pi(K, 2)
    process = tl.Interpolating(K, table)
    assert process == tl.Interpolating(K, table.clone())
    assert hash(process) == hash(tl.Interpolating(K, table.clone()))
    assert process != tl.Interpolating(K, table.flip(0))
    assert process != tl.Interpolating(K, table, schedule=EXACT)
    assert process != tl.Uniform(K)
