"""One-step laws of the processes at every start, by enumeration: no formula of the package is used."""

import itertools
from functools import cache

import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.samplers.helpers import MASK, MASK_PI, P0, SEQUENCES, TABLE_PI, UNIFORM_PI, K, L, product, states

PAIRS = SEQUENCES.repeat_interleave(len(SEQUENCES), 0), SEQUENCES.repeat(len(SEQUENCES), 1)
"""Every (x_t, U)."""
MASKED_SEQUENCES = brute.sequences(K + 1, L)
PRIOR = torch.full((K**L,), 1 / K**L, dtype=torch.float64)


def start_of(kind: type[tl.Process], alpha: float) -> tl.Noisy:
    if kind is tl.Masked:
        return states(MASKED_SEQUENCES, alpha)
    if kind is tl.AbsorbingUniform:
        return states(PAIRS[0], alpha, PAIRS[1])
    return states(SEQUENCES, alpha)


def pi_of(kind: type[tl.Process]) -> Tensor:
    """The noise law of a process without an auxiliary variable: [L, states]."""
    return {tl.Masked: MASK_PI, tl.Interpolating: TABLE_PI}.get(kind, UNIFORM_PI)


@cache
def denoiser(kind: type[tl.Process], alpha: float) -> Tensor:
    """p(x_0^l | x_t), over the states of a position, for every start."""
    if kind is tl.Masked:
        mu = brute.denoiser(P0, MASK_PI, alpha)
        visible = (MASKED_SEQUENCES != MASK).unsqueeze(-1)  # impossible at alpha = 0, and then it stays
        return torch.where(visible, torch.nn.functional.one_hot(MASKED_SEQUENCES, K + 1).double(), mu.nan_to_num())
    if kind is tl.AbsorbingUniform:
        each = [brute.denoiser(P0, brute.point_pi(u, K), alpha) for u in SEQUENCES.tolist()]
        return torch.stack(each, 1).flatten(0, 1)
    return brute.denoiser(P0, pi_of(kind), alpha)


def noise(kind: type[tl.Process]) -> Tensor:
    """pi at every start and position: [starts, L, states]."""
    if kind is tl.AbsorbingUniform:
        return torch.nn.functional.one_hot(PAIRS[1], K).double()
    return pi_of(kind).expand(len(start_of(kind, 1.0).tokens), -1, -1)


def max_coupling_bridge(x_0: int, x_t: int, alpha_s: float, alpha_t: float) -> Tensor:
    """From the joint law of the pair (`eq:max-coupling-pair`), normalised."""
    eye = torch.eye(K, dtype=torch.float64)
    pair = alpha_t * eye[x_0] * (x_t == x_0) + (alpha_s - alpha_t) / K * eye[x_0] + (1 - alpha_s) / K * eye[x_t]
    return pair / pair.sum()


@cache
def bridge_law(kind: type[tl.Process], alpha_s: float, alpha_t: float) -> Tensor:
    """p(x_s^l | x_t) for every start: [starts, L, states]."""
    if kind is tl.Masked:
        return masked_bridge(alpha_s, alpha_t)
    if kind is tl.AbsorbingUniform:
        each = [brute.reverse_marginals(P0, brute.point_pi(u, K), alpha_s, alpha_t) for u in SEQUENCES.tolist()]
        return torch.stack(each, 1).flatten(0, 1)
    if kind is not tl.MaxCoupling:
        return brute.reverse_marginals(P0, pi_of(kind), alpha_s, alpha_t)
    mu = denoiser(kind, alpha_t)
    table = [[max_coupling_bridge(x_0, x_t, alpha_s, alpha_t) for x_0 in range(K)] for x_t in range(K)]
    bridges = torch.stack([torch.stack(row) for row in table])
    return torch.einsum("nlo,nlos->nls", mu, bridges[SEQUENCES])


@cache
def masked_bridge(alpha_s: float, alpha_t: float) -> Tensor:
    """Bayes' rule where x_t is possible; a visible token that is not stays (`eq:mdm-bridge`)."""
    exact = brute.reverse_marginals(P0, MASK_PI, alpha_s, alpha_t)
    stay = torch.nn.functional.one_hot(MASKED_SEQUENCES, K + 1).double()
    return torch.where((MASKED_SEQUENCES != MASK).unsqueeze(-1), stay, exact.nan_to_num())


def psi_law(kind: type[tl.Process], kappa: float, alpha_s: float, alpha_t: float) -> Tensor:
    """The bridge and a fresh noising of the denoiser, superposed: [starts, L, states]."""
    fresh = alpha_s * denoiser(kind, alpha_t) + (1 - alpha_s) * noise(kind)
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


def possible(kind: type[tl.Process], start: tl.Noisy, alpha_t: float) -> Tensor:
    """Flags of starts with p_t > 0: at alpha = 0 everything is noise."""
    if alpha_t > 0:
        return torch.ones(len(start.tokens), dtype=torch.bool)
    return (noise(kind).gather(-1, start.tokens.unsqueeze(-1)) > 0).all(1).squeeze(-1)


@cache
def reverse_rates(kind: type[tl.Process], alpha: float) -> Tensor:
    """[starts, L, states], 0 at x_t, for alpha = 1 - t: forward rate from y to x times p_t(y) / p_t(x), where y is x
    with another token at one position; for the max coupling the derivative of its bridge, which is linear in alpha_s.
    """
    start = start_of(kind, alpha)
    own = torch.nn.functional.one_hot(start.tokens, noise(kind).shape[-1]).bool()
    if kind is tl.MaxCoupling:
        alpha_s = (1 + alpha) / 2
        return (bridge_law(kind, alpha_s, alpha) / (alpha_s - alpha)).masked_fill(own, 0)
    beta, number = 1 / alpha, noise(kind).shape[-1]
    result = torch.zeros_like(noise(kind))
    for index, x in enumerate(start.tokens.tolist()):
        pi = noise(kind)[index]
        p_t = brute.marginal(P0, pi, alpha).view(number, number)
        for position, y in itertools.product(range(L), range(number)):
            other = list(x)
            other[position] = y
            if y != x[position]:
                result[index, position, y] = beta * pi[position, x[position]] * p_t[tuple(other)] / p_t[tuple(x)]
    return result


@cache
def uniform_bridges(alpha_s: float, alpha_t: float) -> Tensor:
    """q(x_s | x_0, x_t) of one position, [x_t, x_0, x_s]."""
    rows = [[brute.bridge(x_0, x_t, UNIFORM_PI[0], alpha_s, alpha_t) for x_0 in range(K)] for x_t in range(K)]
    return torch.stack([torch.stack(row) for row in rows])


def chain_end(kernels: list[Tensor], prior: Tensor = PRIOR) -> Tensor:
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


def there_and_back(kind: type[tl.Process], amount: float, alpha: float, p0: Tensor = P0) -> Tensor:
    """Noise by the amount, then the ancestral step back, drawn position by position."""
    later, pi = (1 - amount) * alpha, pi_of(kind)
    back = masked_bridge(alpha, later) if kind is tl.Masked else brute.reverse_marginals(p0, pi, alpha, later)
    return brute.kernel(1 - amount, pi) @ product(back)
