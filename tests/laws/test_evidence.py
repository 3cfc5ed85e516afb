r"""What a posterior needs of noise law, schedule and time is one number per position, the evidence a_l:

    p(x_0 | x_t)  is proportional to  p_0(x_0) prod_l (1 + (e^{a_l} - 1) [x_0^l = x_t^l]).

Every posterior here is enumerated from the definition of its process, q(x_t | x_0, aux), and never through the
evidence; the right-hand side is computed from (x_t, a) and nothing else.
"""

import math
from functools import reduce
from itertools import product

import pytest
import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.exact_network import from_evidence
from tests.laws.helpers import EXACT, assert_close, probabilities

K, L = 3, 3
P0 = brute.random_p0(K, L)
PI = brute.random_pi(K, L)
EYE = torch.eye(K, dtype=torch.float64)
UNIFORM = torch.full((K,), 1 / K, dtype=torch.float64)
NONE = (False,) * L
SCHEDULES = [
    (EXACT, 0.35, NONE),
    (tl.CosineSchedule(eps=1e-3), 0.8, NONE),
    (tl.PolynomialSchedule(power=3.0), 0.95, (True, False, False)),
    (tl.GeometricSchedule(), 0.6, (True, False, True)),
]
"""A schedule, a time and the given positions."""
COUPLINGS = [
    tl.couplings.Markov(),
    tl.couplings.Maximal(),
    tl.couplings.Absorbing(),
    tl.couplings.TransitionTimes(),
]
Auxiliary = tuple[float, ...] | None


def processes(schedule: tl.Schedule) -> list[tl.Process]:
    return [
        tl.Uniform(K, schedule=schedule),
        tl.Masked(K, schedule=schedule),
        tl.AbsorbingUniform(K, schedule=schedule),
        tl.MaskedUniform(K, schedule=schedule),
        tl.MaxCoupling(K, schedule=schedule),
        tl.Hybrid(K, p_uniform=0.3, schedule=schedule),
        *(tl.Process(tl.noise.Table(K, PI), coupling, schedule) for coupling in COUPLINGS),
    ]


CASES = [
    pytest.param(process, t, given, id=f"{process.name}-{type(schedule).__name__}-{sum(given)}")
    for schedule, t, given in SCHEDULES
    for process in processes(schedule)
]


def auxiliaries(process: tl.Process, t: float) -> list[Auxiliary]:
    """Every auxiliary variable: each U, or transition times before and after t in every combination."""
    if isinstance(process.coupling, tl.couplings.Absorbing):
        return list(product(range(K), repeat=L))
    if isinstance(process.coupling, tl.couplings.TransitionTimes):
        return list(product((t / 2, (1 + t) / 2), repeat=L))
    return [None]


def transition(process: tl.Process, t: float, place: int, aux: Auxiliary) -> Tensor:
    """q(x_t | x_0, aux) of one position, [x_0, x_t], from the definition of the process."""
    alpha = float(process.schedule.alpha(torch.tensor(t, dtype=torch.float64)))
    if isinstance(process.noise, tl.noise.MaskAndUniform):
        tau, weight = 1 - alpha, 2 * process.noise.p_uniform / (1 - process.noise.p_uniform)
        noise = weight * math.sqrt(tau * (1 - tau))
        table = torch.cat([(1 - tau) * EYE + noise / K, torch.full((K, 1), tau, dtype=torch.float64)], 1)
        return table / (1 + noise)
    if isinstance(process.noise, tl.noise.Mask):
        return torch.cat([alpha * EYE, torch.full((K, 1), 1 - alpha, dtype=torch.float64)], 1)
    pi = process.noise.pi[place] if isinstance(process.noise, tl.noise.Table) else UNIFORM
    if isinstance(process.coupling, tl.couplings.Maximal):  # the law of a pair (x_s, x_t), summed over x_s
        return pair_law(min(1.0, 1.2 * alpha), alpha, pi).sum(1)
    if isinstance(process.coupling, tl.couplings.TransitionTimes):
        assert aux is not None
        return EYE if aux[place] > t else pi.expand(K, K)
    if isinstance(process.coupling, tl.couplings.Absorbing):
        assert aux is not None
        return alpha * EYE + (1 - alpha) * EYE[int(aux[place])]
    return alpha * EYE + (1 - alpha) * pi


def pair_law(alpha_s: float, alpha_t: float, pi: Tensor) -> Tensor:
    """`eq:max-coupling-pair`, [x_0, x_s, x_t]."""
    same = EYE[:, :, None] * EYE[:, None, :]
    moved = EYE[:, :, None].expand(K, K, K)
    return alpha_t * same + (alpha_s - alpha_t) * moved * pi + (1 - alpha_s) * (EYE * pi).expand(K, K, K)


def tables(process: tl.Process, t: float, aux: Auxiliary, given: tuple[bool, ...] = NONE) -> list[Tensor]:
    """The transition of every position; a given one keeps its token."""
    found = [transition(process, t, place, aux) for place in range(L)]
    same = torch.eye(K, process.num_states, dtype=torch.float64)
    return [same if known else table for known, table in zip(given, found, strict=True)]


def bayes(transitions: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Flags of the x_t that are possible, and the denoiser and leave-one-out posterior at each: [x_t, L, K]."""
    states = transitions[0].shape[1]
    joint = P0.reshape(-1, 1) * reduce(torch.kron, transitions)
    seen, unseen = [], []
    for place in range(L):
        table = brute.position_table(joint, K, L, place)
        wide = table.view(K, *[states] * L)
        others = wide.sum(place + 1, keepdim=True).expand_as(wide).reshape(K, -1)
        seen.append(table / table.sum(0))
        unseen.append(others / others.sum(0))
    return joint.sum(0) > 0, torch.stack(seen).permute(2, 0, 1), torch.stack(unseen).permute(2, 0, 1)


def state(process: tl.Process, t: float, tokens: Tensor, aux: Auxiliary, given: tuple[bool, ...] = NONE) -> tl.Noisy:
    times = torch.full((len(tokens),), t, dtype=torch.float64)
    hidden = None if aux is None else torch.tensor([aux]).expand(len(tokens), L)
    if isinstance(process.coupling, tl.couplings.TransitionTimes) and hidden is not None:
        hidden = hidden.double()
    flags = torch.tensor([given]).expand(len(tokens), L) if any(given) else None
    return tl.Noisy(tokens, times, process.alpha(times), hidden, flags)


@pytest.mark.parametrize(("process", "t", "given"), CASES)
def test_posteriors_are_functions_of_the_tokens_and_their_evidence_alone(
    process: tl.Process, t: float, given: tuple[bool, ...]
) -> None:
    for aux in auxiliaries(process, t):
        possible, denoiser, leave_one_out = bayes(tables(process, t, aux, given))
        noisy = state(process, t, brute.sequences(process.num_states, L)[possible], aux, given)
        mu, nu = from_evidence(P0, noisy.tokens, process.evidence(noisy))
        assert_close(mu, denoiser[possible])
        assert_close(nu, leave_one_out[possible])
    for kind, exact in ((tl.Denoiser, denoiser), (tl.LeaveOneOut, leave_one_out)):
        assert_close(probabilities(tl.Oracle(P0, process, predicts=kind).predict(noisy)), exact[possible])


def table_that_says(evidence: float, tokens: list[int], alpha: float) -> Tensor:
    """A noise law per position under which these tokens have this evidence at this level; the rest is random."""
    own = alpha / ((1 - alpha) * math.expm1(evidence))
    others = brute.random_pi(K, L, seed=7).masked_fill(torch.nn.functional.one_hot(torch.tensor(tokens), K).bool(), 0)
    pi = (1 - own) * others / others.sum(-1, keepdim=True)
    return pi.scatter(-1, torch.tensor(tokens).unsqueeze(-1), own)


def time_of(process: tl.Process, evidence: float, aux: Auxiliary) -> float:
    """When token 0 is worth so much, log q(0 | 0) - log q(0 | 1) from the definition: it falls with time."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        own, other = transition(process, middle, 0, aux)[:2, 0].tolist()
        low, high = (middle, high) if own > math.exp(evidence) * other else (low, middle)
    return high


def at(tokens: list[int], transitions: list[Tensor]) -> Tensor:
    """Denoiser and leave-one-out posterior at one x_t."""
    index = reduce(lambda total, token: total * transitions[0].shape[1] + token, tokens, 0)
    _, mu, nu = bayes(transitions)
    return torch.stack([mu[index], nu[index]])


@pytest.mark.parametrize("evidence", [0.2, 1.5, 4.0])
def test_processes_brought_to_the_same_evidence_have_the_same_posterior(evidence: float) -> None:
    """At levels, times and noise laws that have nothing in common."""
    hybrid = tl.Hybrid(K, p_uniform=0.4)
    plain = [tl.Uniform(K, schedule=schedule) for schedule in (EXACT, tl.CosineSchedule(eps=0.0))]
    absorbing = tl.AbsorbingUniform(K, schedule=EXACT)
    times = [time_of(process, evidence, (0,) * L) for process in (*plain, absorbing, hybrid)]
    assert len({round(t, 3) for t in (*times, 0.92)}) == 5
    for tokens in ([0, 0, 0], [0, 2, 1], [2, 1, 1], [1, 0, 2]):
        table = tl.Interpolating(K, table_that_says(evidence, tokens, 0.08), schedule=EXACT)
        exact = at(tokens, tables(plain[0], times[0], None))
        assert_close(at(tokens, tables(plain[1], times[1], None)), exact)
        assert_close(at(tokens, tables(absorbing, times[2], tuple(tokens))), exact)
        assert_close(at(tokens, tables(hybrid, times[3], None)), exact)
        assert_close(at(tokens, tables(table, 0.92, None)), exact)
        assert (at(tokens, tables(plain[0], times[0] - 0.02, None)) - exact).abs().max() > 1e-4


def test_masks_lost_and_kept_tokens_and_givens_are_the_two_ends_of_one_axis() -> None:
    """All of 0 and inf: MDM, MUDM, and AUDM and UDM at t = 1 beside given tokens."""
    for known in product((False, True), repeat=L):
        hidden = [1 if flag else K for flag in known]
        shown = [1 if flag else place % K for place, flag in enumerate(known)]
        kept = tuple(0.9 if flag else 0.1 for flag in known)
        u = tuple(0 if flag else token for flag, token in zip(known, shown, strict=True))
        rivals: list[tuple[tl.Process, Auxiliary, tuple[bool, ...], float, list[int]]] = [
            (tl.Masked(K, schedule=EXACT), None, NONE, 0.4, hidden),
            (tl.Masked(K, schedule=tl.CosineSchedule()), None, NONE, 0.9, hidden),
            (tl.MaskedUniform(K, schedule=EXACT), kept, NONE, 0.5, shown),
            (tl.AbsorbingUniform(K, schedule=EXACT), u, known, 1.0, shown),
            (tl.Uniform(K, schedule=EXACT), None, known, 1.0, shown),
        ]
        found = [at(tokens, tables(process, t, aux, given)) for process, aux, given, t, tokens in rivals]
        for (process, aux, given, t, tokens), exact in zip(rivals, found, strict=True):
            evidence = process.evidence(state(process, t, torch.tensor([tokens]), aux, given))
            assert evidence[0].tolist() == [math.inf if flag else 0.0 for flag in known]
            assert_close(exact, found[0])


@pytest.mark.parametrize(
    ("process", "t"),
    [
        (tl.MaskedUniform(K, schedule=EXACT), 0.4),
        (tl.MaskedUniform(K, schedule=tl.CosineSchedule()), 0.8),
        (tl.Uniform(K, schedule=EXACT), 1.0),
        (tl.MaxCoupling(K, schedule=EXACT), 1.0),
        (tl.Interpolating(K, PI, schedule=EXACT), 1.0),
    ],
)
def test_where_the_evidence_is_0_the_posterior_does_not_depend_on_the_token(process: tl.Process, t: float) -> None:
    """Any such token of any x_t is replaced by every other."""
    replaced = 0
    for aux in auxiliaries(process, t):
        possible, denoiser, leave_one_out = bayes(tables(process, t, aux))
        tokens = brute.sequences(process.num_states, L)
        empty = process.evidence(state(process, t, tokens, aux)) == 0
        key = torch.where(empty, -1, tokens)
        for row in {tuple(row) for row in key[possible].tolist()}:
            alike = possible & (key == torch.tensor(row)).all(1)
            replaced += int(alike.sum()) - 1
            for exact in (denoiser, leave_one_out):
                assert_close(exact[alike], exact[alike][:1].expand_as(exact[alike]))
    assert replaced >= K**L - 1


@pytest.mark.parametrize("t", [0.3, 0.8])
def test_the_absorbing_posterior_depends_on_u_only_through_where_x_t_equals_it(t: float) -> None:
    """Every (x_t, U), 729 pairs: those with the same x_t and the same flags [x_t = U] have one posterior."""
    process = tl.AbsorbingUniform(K, schedule=EXACT)
    found: dict[tuple[object, ...], Tensor] = {}
    tokens = brute.sequences(K, L)
    for u in auxiliaries(process, t):
        possible, mu, nu = bayes(tables(process, t, u))
        for index in possible.nonzero().squeeze(1).tolist():
            same = tuple((tokens[index] == torch.tensor(u)).tolist())
            both = torch.stack([mu[index], nu[index]])
            assert_close(both, found.setdefault((*tokens[index].tolist(), same), both))
    assert len(found) == K**L * 2**L
    one, other = ((0, 0, 0, flags) for flags in ((True, True, True), (True, True, False)))
    assert (found[one] - found[other]).abs().max() > 0.01
