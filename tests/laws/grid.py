"""Every cell of noise x coupling by enumeration, written from the definitions of the path laws alone.

A cell is given by the noise masses m_s and m_t over the states of each position and by the coupling's path law.  What a
state shows is z = (x, shown): nothing, the absorbing token U, or the piece of time that tau lies in (0: up to s,
1: between s and t, 2: after t).  Nothing here uses a formula of the package.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

import tokenloom as tl
from tests import brute
from tests.laws.helpers import EXACT

K, L = 3, 2
P0 = brute.random_p0(K, L)
ZEROS = torch.tensor([[0.0, 0.3, 0.7], [0.5, 0.5, 0.0]], dtype=torch.float64)
POINT = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
MIXED = torch.tensor([[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64)
UNIGRAMS = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64)
TABLES = {"unigrams": UNIGRAMS, "table": brute.random_pi(K, L), "zeros": ZEROS, "point": POINT, "mixed rows": MIXED}
NOISES: dict[str, tl.noise.Noise] = {
    "uniform": tl.noise.Uniform(K),
    **{name: tl.noise.Table(K, table) for name, table in TABLES.items()},
    "mask": tl.noise.Mask(K),
    "hybrid": tl.noise.MaskAndUniform(K, 0.3),
}
COUPLINGS: dict[str, tl.couplings.Coupling] = {
    "markov": tl.couplings.Markov(),
    "maximal": tl.couplings.Maximal(),
    "absorbing": tl.couplings.Absorbing(),
    "times": tl.couplings.TransitionTimes(),
}
CELLS = [(noise, coupling) for noise in NOISES for coupling in COUPLINGS if noise != "hybrid" or coupling == "markov"]
TIMES = [(0.3, 0.6), (0.05, 0.95), (0.5, 0.52), (0.0, 0.6), (0.7, 1.0)]
"""Times s < t of a step, both ends of time among them."""
JUMPING = [cell for cell in CELLS if cell[1] != "times"]
"""Cells whose reverse chain jumps at random times."""


def process_of(noise: str, coupling: str) -> tl.Process:
    return tl.Process(NOISES[noise], COUPLINGS[coupling], EXACT)


def level_and_masses(noise: str, t: float) -> tuple[float, Tensor]:
    """alpha_t and m_t [length, states], from the definition of each noise; t is the share the schedule has lost."""
    if noise == "hybrid":
        b = 2 * 0.3 / (1 - 0.3)
        c = b * (t * (1 - t)) ** 0.5
        mass = torch.tensor([c / K] * K + [t], dtype=torch.float64) / (1 + c)
        return (1 - t) / (1 + c), mass.expand(L, -1)
    if noise == "uniform":
        law = brute.uniform_pi(K, L)
    elif noise == "mask":
        law = brute.point_pi([K] * L, K + 1)
    else:
        law = TABLES[noise].expand(L, -1)
    return 1 - t, t * law


@dataclass(frozen=True)
class Cell:
    """The joint law of x_0, z_s and z_t of each position, [length, K, states, shown, states, shown]."""

    noise: str
    coupling: str
    s: float
    t: float

    @property
    def process(self) -> tl.Process:
        return process_of(self.noise, self.coupling)

    @cached_property
    def joint(self) -> Tensor:
        """q(x_s, x_t, shown | x_0) of each position, [length, K, states, states, shown]."""
        (alpha_s, m_s), (alpha_t, m_t) = level_and_masses(self.noise, self.s), level_and_masses(self.noise, self.t)
        states = m_t.shape[1]
        shown = {"markov": 1, "maximal": 1, "absorbing": states, "times": 3}[self.coupling]
        law = torch.zeros(L, K, states, states, shown, dtype=torch.float64)
        for place, x_0 in itertools.product(range(L), range(K)):
            if self.coupling == "markov":
                kept = alpha_t / alpha_s
                for a, b in itertools.product(range(states), range(states)):
                    at_s = alpha_s * (a == x_0) + m_s[place, a]
                    law[place, x_0, a, b, 0] = at_s * (kept * (a == b) + m_t[place, b] - kept * m_s[place, b])
                continue
            for u in range(states):  # one path: x_0 until tau, then U for ever
                w = m_t[place, u] / (1 - alpha_t)
                for piece, weight in enumerate((1 - alpha_s, alpha_s - alpha_t, alpha_t)):
                    a, b = (u if piece == 0 else x_0), (x_0 if piece == 2 else u)
                    index = {"maximal": 0, "absorbing": u, "times": piece}[self.coupling]
                    law[place, x_0, a, b, index] += w * weight
        return law

    @cached_property
    def shown(self) -> Tensor:
        """q(x_t, shown | x_0), [length, K, states, shown]."""
        return self.joint.sum(2)

    @cached_property
    def states(self) -> tuple[Tensor, Tensor, Tensor]:
        """Every (x_t, shown) of positive probability, and p(x_0, x_t, shown) for every x_0, [rows, K, K]."""
        states, shown = self.shown.shape[2:]
        choices = list(itertools.product(range(states), range(shown)))
        rows, tables = [], []
        for first, second in itertools.product(choices, choices):
            table = P0 * self.shown[0, :, first[0], first[1]][:, None] * self.shown[1, :, second[0], second[1]]
            if float(table.sum()) > 0:
                rows.append([first, second])
                tables.append(table)
        z = torch.tensor(rows)
        return z[..., 0], z[..., 1], torch.stack(tables)

    @cached_property
    def noisy(self) -> tl.Noisy:
        """The states as the package holds them."""
        return self.state(*self.states[:2], self.t)

    def state(self, tokens: Tensor, shown: Tensor, time: float) -> tl.Noisy:
        """Tokens and what is shown, [rows, length] each, as the package holds them at a time."""
        t = torch.full((len(tokens),), time, dtype=torch.float64)
        pieces = torch.tensor([self.s / 2, (self.s + self.t) / 2, (self.t + 1) / 2], dtype=torch.float64)
        aux = {"absorbing": shown, "times": pieces[shown.clamp(max=2)]}.get(self.coupling)
        return tl.Noisy(tokens, t, self.process.alpha(t), aux)

    @cached_property
    def denoiser(self) -> Tensor:
        """p(x_0^l = k | z_t), [rows, length, K]."""
        table = self.states[2]
        both = torch.stack([table.sum(2), table.sum(1)], 1)
        return both / both.sum(-1, keepdim=True)

    @cached_property
    def leave_one_out(self) -> Tensor:
        """p(x_0^l = k | z_t at the other position), [rows, length, K]."""
        tokens, shown, _ = self.states
        first = torch.einsum("ij,jr->ri", P0, self.shown[1][:, tokens[:, 1], shown[:, 1]])
        second = torch.einsum("ij,ir->rj", P0, self.shown[0][:, tokens[:, 0], shown[:, 0]])
        both = torch.stack([first, second], 1)
        return both / both.sum(-1, keepdim=True)

    @cached_property
    def conditional(self) -> Tensor:
        """p(x_t^l = y | z_t at the other position, shown) = sum_k nu_k q(y, shown | k), [rows, length, states]."""
        shown = self.states[1]
        table = torch.stack([self.shown[at][..., shown[:, at]] for at in range(L)]).permute(3, 0, 1, 2)
        law = torch.einsum("rlk,rlky->rly", self.leave_one_out, table)
        return law / law.sum(-1, keepdim=True)

    @cached_property
    def pairs(self) -> Tensor:
        """q(x_s, z_t | x_0) at each z_t, [rows, length, K, states]."""
        tokens, shown, _ = self.states
        return torch.stack([self.joint[at][..., tokens[:, at], shown[:, at]] for at in range(L)]).permute(3, 0, 1, 2)

    @cached_property
    def bridges(self) -> Tensor:
        """q(x_s | x_0, z_t), [rows, length, K, states]; NaN where x_0 and z_t exclude each other."""
        return self.pairs / self.pairs.sum(-1, keepdim=True)

    @cached_property
    def reverse(self) -> Tensor:
        """p(x_s^l | z_t), by summing the joint law over x_0, [rows, length, states]."""
        return (self.denoiser.unsqueeze(-1) * self.bridges).nan_to_num(0.0).sum(2)
