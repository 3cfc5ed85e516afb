r"""Muon (Jordan et al. 2024): a matrix moves by its momentum with all singular values set to 1, the rest by AdamW.

    M <- 0.95 M + G,      N = G + 0.95 M = U S V^T,      W <- W - lr 0.2 sqrt(max(rows, columns)) U V^T

The factor makes a step of W as large, by its root mean square, as AdamW's usually are, so that one learning rate serves
both.  U V^T comes from five Newton-Schulz steps, which leave singular values between 0.7 and 1.2.  On a processor they
are taken in float32, for many of them compute with bfloat16 slowly.
"""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tokenloom.nn.block import Modulation

FASTER = 3
"""Times AdamW's learning rate that suits Muon."""
MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the polynomial a x + b x^3 + c x^5, which is steep at 0 and stays near 1 there."""
STEPS = 5

Matrix = Float[Tensor, "rows columns"]


class Muon(torch.optim.Optimizer):
    """Matrices move by Muon's law, in the second group, and others by AdamW, whose options both have."""

    def __init__(self, others: Iterable[Tensor], matrices: Iterable[Tensor], *options: Any) -> None:
        self.adam = torch.optim.AdamW(list(others), *options)
        (group,) = self.adam.param_groups
        super().__init__([group, {**group, "params": list(matrices), "moments": ("momentum",)}], {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        others, matrices = self.param_groups
        self.adam.param_groups, self.adam.state = [others], self.state
        self.adam.step(closure)
        rate, decay = float(matrices["lr"]), matrices["weight_decay"]
        for weight in matrices["params"]:
            if weight.grad is None:
                continue
            state = self.state[weight]
            momentum = state.setdefault("momentum", torch.zeros_like(weight))
            momentum.mul_(MOMENTUM).add_(weight.grad)
            direction = orthogonal(torch.add(weight.grad, momentum, alpha=MOMENTUM))
            weight.mul_(1 - rate * decay).add_(direction, alpha=-0.2 * rate * max(weight.shape) ** 0.5)


def orthogonal(matrix: Matrix) -> Matrix:
    """Return U V^T of a matrix U S V^T, nearly."""
    dtype = torch.bfloat16 if matrix.is_cuda else torch.float32
    x = matrix.to(dtype)
    wide = x.T if len(x) > x.shape[1] else x
    wide = wide / wide.norm().clamp(min=1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(STEPS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return (wide.T if len(x) > x.shape[1] else wide).to(matrix.dtype)


def matrices_of(network: nn.Module) -> list[Tensor]:
    """Return the weights of the linear maps between hidden vectors: not those of the head, nor of the modulation."""
    outside = [getattr(network, "head", None), *(part for part in network.modules() if isinstance(part, Modulation))]
    kept = {id(weight) for part in outside if part is not None for weight in part.parameters()}
    linear = [part.weight for part in network.modules() if isinstance(part, nn.Linear)]
    return [weight for weight in linear if weight.requires_grad and id(weight) not in kept]
