r"""Head and loss without the [batch, length, vocab] tensor.

The head is linear and every objective is local, so positions are taken a few hundred at a time: logits, loss, and at
once the gradient of the weighted loss with respect to logits, features and head.  Inside a chunk, losses are formed a
few rows at a time, and their gradient takes the place of the logits.  Nothing of vocabulary size outlives its chunk,
and the head is not evaluated again for the backward pass.  The gradient is exact, for a total

    loss = sum_{batch, length} weight * per-token loss

whose weights are known beforehand.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from tokenloom.drawing.chunks import chunks
from tokenloom.drawing.randomness import Randomness
from tokenloom.models.network import LinearHead
from tokenloom.models.protocol import Model
from tokenloom.objectives.base import Objective
from tokenloom.objectives.prior_term import PriorTerm
from tokenloom.posteriors import Denoiser
from tokenloom.state import Noisy
from tokenloom.support.checks import check_batch
from tokenloom.support.typed import checked
from tokenloom.types import Flags, PerPosition, PerRow, Tokens

HEAD_SHARE = 2
"""The logits of a chunk take this part of the memory of the head's own weight: each chunk adds to a gradient of that
size, so chunks that are small beside it would spend their time there."""
CHUNK_ELEMENTS = 1 << 22
"""Logits of a chunk where the head is small."""
PIECE_ELEMENTS = 1 << 20
"""Logits whose loss and gradient are formed at once: small enough for a cache."""

RowLoss = Callable[[Tensor, Any], Tensor]


@dataclass(frozen=True)
class Loss:
    """The loss of a batch."""

    mean: Float[Tensor, ""]
    """The mean over free positions in nats, with its graph."""
    per_token: Float[Tensor, "batch length"]
    """The loss of every position in nats, without a graph."""


@checked
def training_loss(
    model: Model,
    objective: Objective,
    x_0: Tokens,
    t: PerRow,
    generator: Randomness | None = None,
    given: Flags | None = None,
    weights: PerPosition | None = None,
) -> Loss:
    """Corrupt, predict and score a batch; call `backward()` on the `mean` of what is returned.

    The noisy state is made where `x_0` lies and moved to where the model is.

    Args:
        t: The time of each row, in [0, 1]; for a bound, uniform numbers.
        generator: The source of random numbers, on the device of `x_0`; PyTorch's global generator if None.
        given: Flags of the positions that stay clean and do not count.
        weights: The weights of the mean; by default equal over the free positions.
    """
    process = model.process
    objective.check(process, model.predicts, model.hollow)
    check_batch(x_0, t, given, process.vocab_size, process.mask_in_vocabulary, weights)
    noisy = process.corrupted(x_0, objective.times(t), generator, given)
    return loss_at(model, objective, x_0, noisy, weights)


def loss_at(
    model: Model,
    objective: Objective | PriorTerm,
    x_0: Tokens,
    noisy: Noisy,
    weights: PerPosition | None = None,
    features: Tensor | None = None,
) -> Loss:
    """Score a state that the caller has made, of arguments that were checked; `features` are by default its body's."""
    if weights is None:
        weights = noisy.free.double() / noisy.free.sum().clamp(min=1)
    head = model.linear_head
    device = model.device if head is None else head.weight.device
    if device is not None and device != x_0.device:
        x_0, noisy, weights = x_0.to(device), noisy.to(device), weights.to(device)
    if head is None:
        prediction = model.interpret(model.logits(noisy), noisy)
        prediction.check(noisy, model.process)  # a callable may return anything
        per_token = objective.per_token(prediction, x_0, noisy, model.process)
        per_token = per_token if noisy.given is None else per_token.masked_fill(noisy.given, 0)
        return Loss((weights * per_token).sum(), per_token.detach())
    features = (model.body(noisy) if features is None else features).flatten(0, 1)
    rows = replace(noisy, evidence=model.process.evidence(noisy)).each_position()
    weights = weights.flatten()
    clean, open_rows = x_0.reshape(-1, 1), _open_rows(rows, model)

    def row_loss(logits: Tensor, part: slice | Tensor) -> Tensor:
        state = rows.sequences(part)
        prediction = model.interpret(logits.unsqueeze(1), state)
        return objective.per_token(prediction, clean[part], state, model.process).squeeze(1)

    if open_rows is None:
        mean, per_token = head_loss(features, head, row_loss, weights)
        return Loss(mean, per_token.view_as(x_0))
    mean, losses = head_loss(
        features[open_rows], head, lambda logits, part: row_loss(logits, open_rows[part]), weights[open_rows]
    )
    settled = _settled_losses(rows, open_rows, len(head.weight), row_loss, features)
    per_token = settled.index_copy(0, open_rows, losses.double())
    return Loss(mean + (weights * per_token).sum() - (weights[open_rows] * losses).sum(), per_token.view_as(x_0))


def _open_rows(rows: Noisy, model: Model) -> Int[Tensor, "rows"] | None:
    """Return the rows whose loss depends on the network; None for all of them.

    Given positions cost nothing, and a denoiser is a point mass where x_t reveals x_0: no logits are computed there.
    """
    assert rows.evidence is not None
    settled = rows.evidence.isposinf() if model.predicts is Denoiser else rows.given
    if settled is None or not bool(settled.any()):
        return None
    return (~settled).squeeze(1).nonzero().squeeze(1)


def _settled_losses(rows: Noisy, open_rows: Tensor, width: int, row_loss: RowLoss, features: Tensor) -> Tensor:
    """Return the losses of the other rows, whose prediction is a point mass whatever the logits are; 0 elsewhere."""
    losses = torch.zeros(len(rows.tokens), device=features.device, dtype=torch.float64)
    settled = torch.ones_like(losses, dtype=torch.bool).index_fill(0, open_rows, False)
    if rows.given is not None:
        settled &= ~rows.given.squeeze(1)
    index = settled.nonzero().squeeze(1)
    with torch.no_grad():
        for part in chunks(len(index), width, PIECE_ELEMENTS) if len(index) else []:
            blank = torch.zeros(len(index[part]), width, device=features.device)
            losses[index[part]] = row_loss(blank, index[part]).double()
    return losses


def head_loss(
    features: Float[Tensor, "rows width"], head: LinearHead, row_loss: RowLoss, weights: Float[Tensor, "rows"]
) -> tuple[Tensor, Tensor]:
    """Return sum_i weights_i row_loss(head(features))_i, and the losses themselves without a graph."""
    weight, bias = head.weight, head.weight.new_zeros(len(head.weight)) if head.bias is None else head.bias
    needed = torch.is_grad_enabled() and any(part.requires_grad for part in (features, weight, bias))
    total, per_row = _HeadLoss.apply(features, weight, bias, row_loss, weights, needed)  # type: ignore[no-untyped-call]
    return total, per_row


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, row_loss: RowLoss, weights: Tensor, needed: bool
    ) -> tuple[Tensor, Tensor]:
        size = max(features.shape[1] // HEAD_SHARE, CHUNK_ELEMENTS // len(weight), 1)
        per_row = torch.empty(len(features), device=features.device, dtype=weights.dtype)
        wide = torch.promote_types(weight.dtype, torch.float32)  # of sums over chunks
        to_features, to_bias = torch.zeros_like(features), torch.zeros_like(bias, dtype=wide)
        to_weight: Tensor | None = None
        for start in range(0, len(features), size):
            part = slice(start, start + size)
            output = torch.nn.functional.linear(features[part], weight, bias)
            for piece in chunks(len(output), len(weight), PIECE_ELEMENTS):
                rows = slice(start + piece.start, start + piece.stop)
                per_row[rows] = _loss_and_slope(output[piece], row_loss, rows, weights, needed)
            if needed:  # the output is its own gradient by now
                to_features[part] = (output @ weight.to(output.dtype)).to(features.dtype)
                if ctx.needs_input_grad[1]:  # a frozen head needs none
                    to_weight = _added(to_weight, output, features[part], wide)
                to_bias.add_(output.sum(0))
        if to_weight is None and ctx.needs_input_grad[1]:
            to_weight = torch.zeros_like(weight)
        to_weight = None if to_weight is None else to_weight.to(weight.dtype)
        ctx.save_for_backward(to_features, to_weight, to_bias.to(bias.dtype))
        ctx.mark_non_differentiable(per_row)
        return (weights * per_row).sum(), per_row

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        saved, slope = ctx.saved_tensors, slopes[0]
        scaled = (
            saved if bool(slope == 1) else [part if part is None else part * slope.to(part.dtype) for part in saved]
        )
        return (*scaled, None, None, None)


def _loss_and_slope(output: Tensor, row_loss: RowLoss, rows: slice, weights: Tensor, needed: bool) -> Tensor:
    """Return the losses of some rows; the gradient of their weighted sum takes the place of the logits."""
    logits = output.detach().float().requires_grad_(needed)
    with torch.set_grad_enabled(needed):
        losses = row_loss(logits, rows)
        weighted = (weights[rows] * losses).sum()
    if needed:
        output.copy_(torch.autograd.grad(weighted, logits)[0])
    return losses.detach()


def _added(total: Tensor | None, slope: Tensor, features: Tensor, wide: torch.dtype) -> Tensor:
    """Add the gradient of the head's weight in a chunk: the product in the precision of the forward pass."""
    if total is None:
        return (slope.T @ features.to(slope.dtype)).to(wide)
    if slope.dtype == wide == features.dtype:
        return total.addmm_(slope.T, features)  # no second tensor of the head's size
    return total.add_(slope.T @ features.to(slope.dtype))
