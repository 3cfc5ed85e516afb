"""Laws by enumeration, written from the definitions alone: explicit matrices, explicit sums, float64.

Nothing here uses a formula of the package.  `pi` has shape [length, states]; sequences are enumerated in row-major
order, so index i of a flattened table is the sequence `sequences(states, length)[i]`.
"""

import itertools

import torch
from torch import Tensor

ALPHAS = (0.85, 0.6, 0.25)


def random_p0(vocab_size: int, length: int, seed: int = 0, sharpness: float = 1.5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn([vocab_size] * length, generator=generator, dtype=torch.float64)
    return torch.softmax(sharpness * logits.flatten(), 0).view([vocab_size] * length)


def random_pi(vocab_size: int, length: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(torch.randn(length, vocab_size, generator=generator, dtype=torch.float64), -1)


def uniform_pi(vocab_size: int, length: int) -> Tensor:
    return torch.full((length, vocab_size), 1 / vocab_size, dtype=torch.float64)


def point_pi(tokens: list[int], states: int) -> Tensor:
    return torch.nn.functional.one_hot(torch.tensor(tokens), states).double()


def sequences(states: int, length: int) -> Tensor:
    return torch.tensor(list(itertools.product(range(states), repeat=length)))


def kernel(kept: float, pi: Tensor) -> Tensor:
    """The transition over whole sequences, [states^length, states^length], rows the earlier sequence."""
    length, states = pi.shape
    total = torch.ones(1, 1, dtype=torch.float64)
    for position in range(length):
        one = kept * torch.eye(states, dtype=torch.float64) + (1 - kept) * pi[position]
        total = torch.kron(total, one)
    return total


def over_states(p0: Tensor, states: int) -> Tensor:
    """p0 as a vector over all sequences of states (a mask id beyond the vocabulary has mass 0)."""
    wide = torch.zeros([states] * p0.ndim, dtype=torch.float64)
    wide[tuple(slice(0, size) for size in p0.shape)] = p0
    return wide.flatten()


def joint(p0: Tensor, pi: Tensor, alpha: float) -> Tensor:
    """p(x_0, x_t), [states^length, states^length]."""
    return over_states(p0, pi.shape[1])[:, None] * kernel(alpha, pi)


def position_table(table: Tensor, states: int, length: int, position: int) -> Tensor:
    """Sum a table over sequences (first dimension) down to one position: [states, ...]."""
    folded = table.view([states] * length + list(table.shape[1:]))
    others = [axis for axis in range(length) if axis != position]
    return folded.sum(others) if others else folded


def denoiser(p0: Tensor, pi: Tensor, alpha: float) -> Tensor:
    """p(x_0^l = k | x_t) for every x_t: [states^length, length, states]."""
    length, states = pi.shape
    table = joint(p0, pi, alpha)
    columns = [position_table(table, states, length, position) for position in range(length)]
    return torch.stack([column / column.sum(0) for column in columns]).permute(2, 0, 1)


def leave_one_out(p0: Tensor, pi: Tensor, alpha: float) -> Tensor:
    """p(x_0^l = k | x_t^{-l}) for every x_t, by summing the joint law over x_t^l: [states^length, length, states]."""
    length, states = pi.shape
    table = joint(p0, pi, alpha)
    result = []
    for position in range(length):
        column = position_table(table, states, length, position).view([states] + [states] * length)
        summed = column.sum(position + 1, keepdim=True).expand_as(column).reshape(states, -1)
        result.append(summed / summed.sum(0))
    return torch.stack(result).permute(2, 0, 1)


def marginal(p0: Tensor, pi: Tensor, alpha: float) -> Tensor:
    """p_t over all sequences of states."""
    return joint(p0, pi, alpha).sum(0)


def reverse_kernel(p0: Tensor, pi: Tensor, alpha_s: float, alpha_t: float) -> Tensor:
    """p(x_s | x_t), rows x_t: Bayes on the joint law of (x_s, x_t)."""
    both = marginal(p0, pi, alpha_s)[:, None] * kernel(alpha_t / alpha_s, pi)
    return (both / both.sum(0)).T


def reverse_marginals(p0: Tensor, pi: Tensor, alpha_s: float, alpha_t: float) -> Tensor:
    """p(x_s^l | x_t) for every x_t: [states^length, length, states]."""
    length, states = pi.shape
    reverse = reverse_kernel(p0, pi, alpha_s, alpha_t).T
    return torch.stack([position_table(reverse, states, length, position) for position in range(length)]).permute(
        2, 0, 1
    )


def path_law(prior: Tensor, kernels: list[Tensor]) -> Tensor:
    """The joint law of a chain: a tensor with one dimension a time, in the order the chain runs."""
    path = prior
    for step in kernels:
        path = path.unsqueeze(-1) * step
    return path


def bridge(x_0: int, x_t: int, pi: Tensor, alpha_s: float, alpha_t: float) -> Tensor:
    """Bayes' rule for one position: q(x_s | x_0, x_t) over states."""
    eye = torch.eye(len(pi), dtype=torch.float64)
    to_s = alpha_s * eye[x_0] + (1 - alpha_s) * pi
    kept = alpha_t / alpha_s
    to_t = kept * eye[:, x_t] + (1 - kept) * pi[x_t]
    return to_s * to_t / (to_s * to_t).sum()
