"""One-step laws of the processes at every start, by enumeration: no formula of the package is used."""

import itertools
import math
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.samplers import helpers
from tests.samplers.helpers import MASK, MASK_PI, P0, SEQUENCES, TABLES, UNIFORM_PI, Cell, K, L, product, states

PAIRS = SEQUENCES.repeat_interleave(len(SEQUENCES), 0), SEQUENCES.repeat(len(SEQUENCES), 1)
"""Every (x_t, U)."""
MASKED_SEQUENCES = brute.sequences(K + 1, L)
ABSORBING: list[Cell] = [tl.AbsorbingUniform, helpers.table_absorbing]
MAXIMAL: list[Cell] = [tl.MaxCoupling, helpers.table_maximal]


def hybrid_masses(t: float, p_uniform: float = 0.1) -> tuple[float, Tensor]:
    """alpha_t and the noise mass of every state of GIDD, from its definition; the mask is the last state."""
    c = 2 * p_uniform / (1 - p_uniform) * math.sqrt(t * (1 - t))
    noise = torch.full((K + 1,), c / K / (1 + c), dtype=torch.float64)
    noise[K] = t / (1 + c)
    return (1 - t) / (1 + c), noise


def hybrid_transition(s: float, t: float) -> Tensor:
    """q_{t|s} of one position over all states, which composes the marginals."""
    (alpha_s, noise_s), (alpha_t, noise_t) = hybrid_masses(s), hybrid_masses(t)
    kept = alpha_t / alpha_s
    return kept * torch.eye(K + 1, dtype=torch.float64) + (noise_t - kept * noise_s)


def hybrid_joint(p0: Tensor, t: float) -> Tensor:
    """p(x_0, x_t) over sequences of states."""
    one = hybrid_transition(0.0, t)
    return brute.over_states(p0, K + 1)[:, None] * (torch.kron(one, one) if p0.ndim == 2 else one)


def hybrid_reverse(p0: Tensor, s: float, t: float) -> Tensor:
    """p(x_s | x_t) over sequences of states, rows x_t, by Bayes; what is impossible stays."""
    one = hybrid_transition(s, t)
    both = hybrid_joint(p0, s).sum(0)[:, None] * (torch.kron(one, one) if p0.ndim == 2 else one)
    return torch.where(both.sum(0) > 0, both / both.sum(0), torch.eye(len(both), dtype=torch.float64)).T


def start_of(kind: Cell, alpha: float) -> tl.Noisy:
    """Every state at time 1 - alpha, which is the level of all noise but the hybrid."""
    if kind is tl.Masked:
        return states(MASKED_SEQUENCES, alpha)
    if kind is tl.Hybrid:
        start = states(MASKED_SEQUENCES, alpha)
        return replace(start, alpha_t=torch.full_like(start.t, hybrid_masses(1 - alpha)[0]))
    if kind in ABSORBING:
        return states(PAIRS[0], alpha, PAIRS[1])
    return states(SEQUENCES, alpha)


def pi_of(kind: Cell) -> Tensor:
    """The law of a lost token: [L, states]."""
    if kind in TABLES:
        return TABLES[kind](K, L)
    return MASK_PI if kind is tl.Masked else UNIFORM_PI


@cache
def denoiser(kind: Cell, alpha: float) -> Tensor:
    """p(x_0^l | x_t), over the states of a position, for every start."""
    if kind is tl.Masked:
        mu = brute.denoiser(P0, MASK_PI, alpha)
        visible = (MASKED_SEQUENCES != MASK).unsqueeze(-1)  # impossible at alpha = 0, and then it stays
        return torch.where(visible, torch.nn.functional.one_hot(MASKED_SEQUENCES, K + 1).double(), mu.nan_to_num())
    if kind is tl.Hybrid:
        joint = hybrid_joint(P0, 1 - alpha)
        columns = [brute.position_table(joint, K + 1, L, position) for position in range(L)]
        return torch.stack([column / column.sum(0) for column in columns]).permute(2, 0, 1).nan_to_num()
    if kind in ABSORBING:
        each = [brute.denoiser(P0, brute.point_pi(u, K), alpha) for u in SEQUENCES.tolist()]
        return torch.stack(each, 1).flatten(0, 1)
    return brute.denoiser(P0, pi_of(kind), alpha)


def masked_view(tokens: Tensor, lost: Tensor, alpha: float) -> Tensor:
    """p(x_0^l | the tokens that are not lost), the masked denoiser: [rows, L, K]."""
    view = tokens.masked_fill(lost, MASK) * torch.tensor([K + 1, 1])
    return denoiser(tl.Masked, alpha)[view.sum(-1), :, :K]


def noise(kind: Cell) -> Tensor:
    """pi at every start and position, given what is shown: [starts, L, states]."""
    if kind in ABSORBING:
        return torch.nn.functional.one_hot(PAIRS[1], K).double()
    return pi_of(kind).expand(len(start_of(kind, 1.0).tokens), -1, -1)


def max_coupling_bridge(x_0: int, x_t: int, pi: Tensor, alpha_s: float, alpha_t: float) -> Tensor:
    """From the joint law of the pair (`eq:max-coupling-pair`), normalised; impossible pairs stay."""
    eye = torch.eye(K, dtype=torch.float64)
    moved = (alpha_s - alpha_t) * pi[x_t] * eye[x_0] + (1 - alpha_s) * pi[x_t] * eye[x_t]
    pair = alpha_t * eye[x_0] * (x_t == x_0) + moved
    return pair / pair.sum() if float(pair.sum()) > 0 else eye[x_t]


def reverse_law(kind: Cell, alpha_s: float, alpha_t: float) -> Tensor:
    """p(x_s | x_t) over whole sequences, from every start, by Bayes: [starts, sequences]; not of a maximal coupling."""
    if kind is tl.Hybrid:
        return hybrid_reverse(P0, 1 - alpha_s, 1 - alpha_t)
    if kind in ABSORBING:
        each = [brute.reverse_kernel(P0, brute.point_pi(u, K), alpha_s, alpha_t) for u in SEQUENCES.tolist()]
        return torch.stack(each, 1).flatten(0, 1)
    return brute.reverse_kernel(P0, pi_of(kind), alpha_s, alpha_t)


@cache
def bridge_law(kind: Cell, alpha_s: float, alpha_t: float) -> Tensor:
    """p(x_s^l | x_t) for every start: [starts, L, states]."""
    if kind is tl.Masked:
        return masked_bridge(alpha_s, alpha_t)
    if kind not in MAXIMAL:
        reverse, number = reverse_law(kind, alpha_s, alpha_t).T, K + (kind is tl.Hybrid)
        columns = [brute.position_table(reverse, number, L, position) for position in range(L)]
        return torch.stack(columns).permute(2, 0, 1)
    mu, columns = denoiser(kind, alpha_t), []
    for position, pi in enumerate(pi_of(kind).unbind()):
        table = [[max_coupling_bridge(x_0, x_t, pi, alpha_s, alpha_t) for x_0 in range(K)] for x_t in range(K)]
        bridges = torch.stack([torch.stack(row) for row in table])
        columns.append(torch.einsum("no,nos->ns", mu[:, position], bridges[SEQUENCES[:, position]]))
    return torch.stack(columns, 1)


@cache
def masked_bridge(alpha_s: float, alpha_t: float) -> Tensor:
    """Bayes' rule where x_t is possible; a visible token that is not stays (`eq:mdm-bridge`)."""
    exact = brute.reverse_marginals(P0, MASK_PI, alpha_s, alpha_t)
    stay = torch.nn.functional.one_hot(MASKED_SEQUENCES, K + 1).double()
    return torch.where((MASKED_SEQUENCES != MASK).unsqueeze(-1), stay, exact.nan_to_num())


def psi_law(kind: Cell, kappa: float, alpha_s: float, alpha_t: float) -> Tensor:
    """The bridge and a fresh noising of the denoiser, superposed: [starts, L, states]."""
    level, mass = hybrid_masses(1 - alpha_s) if kind is tl.Hybrid else (alpha_s, (1 - alpha_s) * noise(kind))
    fresh = level * denoiser(kind, alpha_t) + mass
    return kappa * bridge_law(kind, alpha_s, alpha_t) + (1 - kappa) * fresh


def remdm_law(sigma: float, alpha_s: float, alpha_t: float) -> Tensor:
    """A visible token is masked with probability sigma, a mask becomes a draw of mu with the probability that keeps
    the share of masks at 1 - alpha_s."""
    stay = torch.nn.functional.one_hot(MASKED_SEQUENCES, K + 1).double()
    to_mask = stay.new_tensor([0.0] * K + [1.0])
    masks = 1 - alpha_s - sigma * alpha_t  # of the 1 - alpha_s masks at s, those that were masks at t
    hidden = masks / (1 - alpha_t)
    mu = denoiser(tl.Masked, alpha_t)
    visible = (MASKED_SEQUENCES != MASK).unsqueeze(-1)
    return torch.where(visible, (1 - sigma) * stay + sigma * to_mask, hidden * to_mask + (1 - hidden) * mu)


def possible(kind: Cell, start: tl.Noisy, alpha_t: float) -> Tensor:
    """Flags of starts with p_t > 0: at alpha = 0 everything is noise, and all of it masks for the hybrid."""
    if alpha_t > 0:
        return torch.ones(len(start.tokens), dtype=torch.bool)
    if kind is tl.Hybrid:
        return (start.tokens == MASK).all(1)
    return (noise(kind).gather(-1, start.tokens.unsqueeze(-1)) > 0).all(1).squeeze(-1)


@cache
def reverse_rates(kind: Cell, alpha: float) -> Tensor:
    """[starts, L, states], 0 at x_t, for alpha = 1 - t: forward rate from y to x times p_t(y) / p_t(x), where y is x
    with another token at one position; for the max coupling the derivative of its bridge, which is linear in alpha_s.
    """
    start = start_of(kind, alpha)
    if kind in MAXIMAL:
        own = torch.nn.functional.one_hot(start.tokens, K).bool()
        alpha_s = (1 + alpha) / 2
        return (bridge_law(kind, alpha_s, alpha) / (alpha_s - alpha)).masked_fill(own, 0)
    if kind is tl.Hybrid:
        p_t, step = hybrid_joint(P0, 1 - alpha).sum(0), 1e-7
        slope = (hybrid_transition(1 - alpha, 1 - alpha + step) - torch.eye(K + 1, dtype=torch.float64)) / step
        return from_forward(start.tokens, [p_t] * len(start.tokens), [[slope] * L] * len(start.tokens))
    laws = [brute.marginal(P0, pi, alpha) for pi in noise(kind)]
    forward = [[(pi / alpha).expand(len(pi), -1) for pi in each] for each in noise(kind)]
    return from_forward(start.tokens, laws, forward)


def from_forward(tokens: Tensor, laws: list[Tensor], forward: list[list[Tensor]]) -> Tensor:
    """Reverse rates at every start from its p_t over sequences, and the forward rates [y, x] of its positions."""
    number = len(forward[0][0])
    result = torch.zeros(len(tokens), L, number, dtype=torch.float64)
    for index, x in enumerate(tokens.tolist()):
        p_t = laws[index].view(number, number)
        for position, y in itertools.product(range(L), range(number)):
            other = list(x)
            other[position] = y
            if y != x[position]:
                rate = forward[index][position][y, x[position]]
                result[index, position, y] = rate * p_t[tuple(other)] / p_t[tuple(x)]
    return result


@cache
def bridge_table(kind: Cell, alpha_s: float, alpha_t: float) -> Tensor:
    """q(x_s | x_0, x_t) of each position in the Markov chain with the noise of a cell: [L, x_t, x_0, x_s]."""
    rows = [
        [[brute.bridge(x_0, x_t, pi, alpha_s, alpha_t) for x_0 in range(K)] for x_t in range(K)] for pi in pi_of(kind)
    ]
    return torch.stack([torch.stack([torch.stack(row) for row in table]) for table in rows])


def markov_bridges(kind: Cell, tokens: Tensor, alpha_s: float, alpha_t: float) -> Tensor:
    """The same at given x_t: [rows, L, x_0, x_s]."""
    return bridge_table(kind, alpha_s, alpha_t)[torch.arange(L), tokens]


def redrawn(kind: Cell, alpha_s: float) -> Tensor:
    """p(aux_s | x_0, x_s) by Bayes, of U or of whether tau_s <= s: [L, x_0, x_s, values]."""
    eye, pi = torch.eye(K, dtype=torch.float64).expand(L, K, K), pi_of(kind)
    if kind in ABSORBING:  # q(x_s | x_0, U) w(U)
        both = (alpha_s * eye.unsqueeze(-1) + (1 - alpha_s) * eye.unsqueeze(1)) * pi[:, None, None, :]
    else:
        both = torch.stack([alpha_s * eye, (1 - alpha_s) * pi.unsqueeze(1).expand(L, K, K)], -1)
    total = both.sum(-1, keepdim=True)
    return both / total.where(total > 0, 1)


def chain_end(kernels: list[Tensor], prior: Tensor) -> Tensor:
    """Where a chain over sequences of states ends, from the matrices of its steps in the order it runs."""
    law = prior
    for kernel in kernels:
        law = law @ kernel
    return law


def conditionals(p_t: Tensor) -> Tensor:
    """p_t(x^l = y | x^{-l}) for every x: [sequences, L, K], from the table of p_t."""
    table = p_t.view(K, K)
    first = (table / table.sum(0)).T[SEQUENCES[:, 1]]
    second = (table / table.sum(1, keepdim=True))[SEQUENCES[:, 0]]
    return torch.stack([first, second], 1)


def redraw(p_t: Tensor, chosen: Tensor) -> Tensor:
    """The kernel that redraws the flagged positions of every sequence independently: [sequences, sequences]."""
    stay = torch.nn.functional.one_hot(SEQUENCES, K).double()
    return product(torch.where(chosen.unsqueeze(-1), conditionals(p_t), stay))


def random_scan(p_t: Tensor) -> Tensor:
    """One position, drawn evenly, is redrawn."""
    either = torch.eye(L, dtype=torch.bool)
    return sum((redraw(p_t, chosen.expand(len(SEQUENCES), L)) / L for chosen in either), torch.zeros(()))


def there_and_back(kind: Cell, amount: float, alpha: float) -> Tensor:
    """Noise by the amount, then the ancestral step back, drawn position by position."""
    later, pi = (1 - amount) * alpha, pi_of(kind)
    back = masked_bridge(alpha, later) if kind is tl.Masked else brute.reverse_marginals(P0, pi, alpha, later)
    return brute.kernel(1 - amount, pi) @ product(back)
