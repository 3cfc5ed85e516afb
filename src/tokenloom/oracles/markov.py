r"""An exact network at realistic length: p_0 is a Markov chain, its posteriors come from forward-backward messages.

With the evidence e^l(k) = q(x_t^l | x_0^l = k), initial law a and transition matrix T,

    f^1 = a,   f^{l+1}(j) = sum_k f^l(k) e^l(k) T(k, j)        what the positions before l + 1 say of x_0^{l+1}
    b^L = 1,   b^l(k)     = sum_j T(k, j) e^{l+1}(j) b^{l+1}(j)   what the positions after l say of x_0^l
    nu^l ~ f^l b^l                                            the leave-one-out posterior: e^l itself does not enter.

Both recursions run side by side, in log space: each message is scaled by its largest entry and multiplied as a matrix,
and where a product underflows (only chains with impossible transitions can) it is redone as a log-sum-exp.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.categorical import invert
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.oracles.exact import ExactModel, check_distribution
from tokenloom.posteriors import Asked, LeaveOneOut, Predicted_co
from tokenloom.process import Process
from tokenloom.schedules import Schedule
from tokenloom.support.checks import check_tokens
from tokenloom.support.typed import checked
from tokenloom.types import Logits, PerRow, Tokens


class MarkovOracle(ExactModel[Predicted_co]):
    """p_0(x) = initial[x^1] prod_l transition[x^l, x^{l+1}]; row k of `transition` is the law of what follows k."""

    @checked
    def __init__(
        self: "MarkovOracle[Asked]",
        initial: Float[Tensor, "vocab"],
        transition: Float[Tensor, "vocab vocab"],
        length: int,
        process: Process,
        schedule: Schedule | None = None,
        predicts: type[Asked] = LeaveOneOut,  # type: ignore[assignment]
    ) -> None:
        super().__init__(length, process, schedule, predicts)
        size = process.vocab_size
        if tuple(initial.shape) != (size,) or tuple(transition.shape) != (size, size):
            raise ValueError(
                f"initial and transition must have shapes [{size}] and [{size}, {size}] as in the process, "
                f"got {list(initial.shape)} and {list(transition.shape)}"
            )
        if length < 1:
            raise ValueError(f"length must be at least 1, got {length}")
        if initial.dtype != transition.dtype or initial.device != transition.device:
            raise ValueError("initial and transition must have the same dtype and device")
        check_distribution("initial", initial)
        check_distribution("transition", transition)
        self.initial, self.transition, self.table = initial, transition, initial
        self._check_mask_unused(self._marginals())

    def _leave_one_out(self, evidence: Logits) -> Logits:
        steps = torch.stack([self.transition, self.transition.T])
        message = torch.stack([self.initial.log().expand_as(evidence[:, 0]), torch.zeros_like(evidence[:, 0])])
        messages = [message]
        for index in range(self.length - 1):
            seen = message + torch.stack([evidence[:, index], evidence[:, self.length - 1 - index]])
            message = _log_matmul(seen, steps)
            messages.append(message)
        both = torch.stack(messages, 2)
        return both[0] + both[1].flip(1)

    def sample(self, batch: int, generator: Randomness | None = None) -> Tokens:
        u = uniform((batch, self.length), generator, self.initial.device)
        tokens = [invert(self.initial.expand(batch, -1).contiguous(), u[:, 0])]
        for position in range(1, self.length):
            tokens.append(invert(self.transition[tokens[-1]], u[:, position]))
        return torch.stack(tokens, 1)

    def log_likelihood(self, x_0: Tokens) -> PerRow:
        check_tokens("x_0", x_0, self.process.vocab_size)
        self._check_length(x_0)
        return self.initial.log()[x_0[:, 0]] + self.transition.log()[x_0[:, :-1], x_0[:, 1:]].sum(-1)

    def entropy(self) -> float:
        """H(x^1) + sum_l E[H(x^{l+1} | x^l)]."""
        first = torch.special.entr(self.initial).sum()
        each = torch.special.entr(self.transition).sum(-1)
        return float(first + (self._marginals()[:-1] @ each).sum())

    def _marginals(self) -> Float[Tensor, "length vocab"]:
        marginals = [self.initial]
        for _ in range(self.length - 1):
            marginals.append(marginals[-1] @ self.transition)
        return torch.stack(marginals)


def _log_matmul(log_rows: Float[Tensor, "2 batch vocab"], matrices: Float[Tensor, "2 vocab vocab"]) -> Tensor:
    """log(exp(log_rows) @ matrices)."""
    largest = log_rows.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    product = torch.exp(log_rows - largest) @ matrices
    # Below tiny / eps an entry may have lost digits to terms that underflowed.
    if not product.numel() or bool(product.min() > torch.finfo(product.dtype).tiny / torch.finfo(product.dtype).eps):
        return product.log() + largest
    return (log_rows.unsqueeze(-1) + matrices.log().unsqueeze(1)).logsumexp(-2)
