"""The oracle of any p_0 that fits in a table: posteriors by enumeration of all sequences."""

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


class Oracle(ExactModel[Predicted_co]):
    """Any p_0, as a table of shape [K] * L, by enumeration.

    Args:
        p0: The probability of every sequence, [K, ..., K] with one dimension per position.
        process: The process to denoise.
        schedule: Replaces that of the process.
        predicts: The representation of the predictions.
    """

    @checked
    def __init__(
        self: "Oracle[Asked]",
        p0: Float[Tensor, "..."],
        process: Process,
        schedule: Schedule | None = None,
        predicts: type[Asked] = LeaveOneOut,  # type: ignore[assignment]
    ) -> None:
        super().__init__(p0.ndim, process, schedule, predicts)
        if p0.ndim == 0 or set(p0.shape) != {process.vocab_size}:
            raise ValueError(
                f"p0 must have shape [K] * L with K = {process.vocab_size} as in the process, got {list(p0.shape)}"
            )
        check_distribution("p0", p0.flatten())
        self.p0 = p0
        for axis in range(p0.ndim):
            self._check_mask_unused(p0.movedim(axis, -1))

    @property
    def table(self) -> Tensor:
        return self.p0

    def _leave_one_out(self, evidence: Logits) -> Logits:
        log_p0, rows = self.p0.log().expand(len(evidence), *self.p0.shape), []
        for position in range(self.length):
            joint = log_p0
            for other in range(self.length):
                if other != position:
                    joint = joint + self._along(evidence[:, other], other)
            others = [axis + 1 for axis in range(self.length) if axis != position]
            rows.append(joint.logsumexp(others) if others else joint)
        return torch.stack(rows, 1)

    def _along(self, values: Float[Tensor, "batch vocab"], axis: int) -> Tensor:
        return values.view(len(values), *[values.shape[1] if other == axis else 1 for other in range(self.length)])

    def sample(self, batch: int, generator: Randomness | None = None) -> Tokens:
        u = uniform((batch,), generator, self.p0.device)
        flat = invert(self.p0.flatten().expand(batch, -1).contiguous(), u)
        return torch.stack(torch.unravel_index(flat, self.p0.shape), -1)

    def log_likelihood(self, x_0: Tokens) -> PerRow:
        check_tokens("x_0", x_0, self.process.vocab_size)
        self._check_length(x_0)
        return self.p0[x_0.unbind(1)].log()

    def entropy(self) -> float:
        return float(torch.special.entr(self.p0).sum())
