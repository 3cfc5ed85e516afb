r"""Exact networks: the true posterior of a known distribution p_0, usable wherever a network is.

Each position's evidence goes in (`process.py`), the exact leave-one-out posterior comes out,

    nu^l(k) ~ sum over x_0 with x_0^l = k of p_0(x_0) prod_{j != l} q(x_t^j | x_0^j, aux^j),

and from it, exactly, whatever representation the oracle is asked to predict.  This holds for every process: the
auxiliary variable only enters through the evidence.  Where x_t has probability 0 the posterior is not defined; the
oracle answers with the uniform law there.  `Oracle` enumerates all sequences, `markov.py` passes messages.
"""

from abc import ABC, abstractmethod
from copy import copy
from typing import Generic, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from tokenloom.drawing.categorical import invert
from tokenloom.drawing.randomness import Randomness, uniform
from tokenloom.posteriors import (
    Asked,
    LeaveOneOut,
    Posterior,
    Predicted_co,
    Score,
    add_evidence,
    as_posterior,
    check_representation,
    convert_at,
)
from tokenloom.process import Process
from tokenloom.schedules import Schedule
from tokenloom.state import Noisy
from tokenloom.support.about import About
from tokenloom.support.checks import check_device, check_tokens
from tokenloom.support.typed import checked
from tokenloom.types import Logits, PerRow, Tokens

Self = TypeVar("Self", bound="ExactModel")


class ExactModel(ABC, Generic[Predicted_co]):
    """A model whose predictions are exact, without a network; a `schedule` replaces that of the process."""

    hollow = causal = timeless = False
    marks_given = True
    linear_head = tokenizer = None
    about = About()

    table: Tensor
    """The tensor whose dtype and device the oracle computes with."""

    def __init__(self, length: int, process: Process, schedule: Schedule | None, predicts: type[Posterior]) -> None:
        check_representation(predicts)
        _check_order(process)
        self.length = length
        self.process = process if schedule is None else process.with_schedule(schedule)
        self.predicts: type[Predicted_co] = predicts  # type: ignore[assignment]

    @property
    def schedule(self) -> Schedule:
        return self.process.schedule

    @checked
    def predict(self, noisy: Noisy) -> Predicted_co:
        """Return the exact posterior at x_t, in the representation this model predicts."""
        self.process.check_state(noisy)
        check_device("x_t", noisy.tokens, self.table)
        return self.interpret(self.body(noisy), noisy)

    def body(self, noisy: Noisy) -> Tensor:
        """Return the logits of the prediction, which `head` passes on."""
        self._check_length(noisy.tokens)
        blank = self.table.new_zeros((*noisy.tokens.shape, self.process.vocab_size))
        logits = self._leave_one_out(add_evidence(blank, noisy.tokens, self.process.evidence(noisy)))
        possible = logits.amax(-1, keepdim=True) > -torch.inf
        exact = LeaveOneOut(torch.where(possible, logits, 0))
        prediction: Posterior = convert_at(exact, self.predicts, noisy, self.process)
        return prediction.log_ratios if isinstance(prediction, Score) else prediction.logits  # type: ignore[attr-defined]

    logits = body

    def head(self, features: Float[Tensor, "rows features"]) -> Float[Tensor, "rows out"]:
        """Return the logits, which the body has computed already."""
        return features

    def interpret(self, logits: Float[Tensor, "batch length out"], noisy: Noisy) -> Predicted_co:
        """Read logits of the prediction as the posterior they are."""
        return as_posterior(logits, self.predicts)

    @property
    def device(self) -> torch.device:
        """The device of the table."""
        return self.table.device

    @checked
    def with_process(self: Self, process: Process) -> Self:
        """Return the oracle of the same distribution under another process."""
        _check_order(process)
        if process.vocab_size != self.process.vocab_size:
            raise ValueError(
                f"this oracle has a vocabulary of {self.process.vocab_size} tokens, the process {process.vocab_size}"
            )
        other = copy(self)
        other.process = process
        return other

    @abstractmethod
    def _leave_one_out(self, evidence: Logits) -> Logits:
        """Return log nu, up to a constant per position, from log q(x_t^l | x_0^l = k)."""

    @abstractmethod
    def sample(self, batch: int, generator: Randomness | None = None) -> Tokens:
        """Draw from p_0, exactly."""

    @abstractmethod
    def log_likelihood(self, x_0: Tokens) -> PerRow:
        """Return log p_0(x_0) in nats."""

    @abstractmethod
    def entropy(self) -> float:
        """Return the entropy of p_0 in nats, the least any model's negative log-likelihood can be on average."""

    def _check_length(self, tokens: Tokens) -> None:
        if tokens.shape[1] != self.length:
            raise ValueError(f"this oracle knows sequences of length {self.length}, got {tokens.shape[1]}")

    def _check_mask_unused(self, marginals: Tensor) -> None:
        mask = self.process.mask_in_vocabulary
        if mask is not None and bool((marginals[..., mask] > 0).any()):
            raise ValueError(f"p_0 puts mass on token {mask}, which is the mask: clean data is never masked")


def _check_order(process: Process) -> None:
    if process.sequential:
        raise ValueError(
            f"an oracle sees every position, and under {process.title} a prediction sees earlier ones only; "
            "sample() and log_likelihood() of the oracle are exact without it"
        )


def check_distribution(name: str, probabilities: Tensor) -> None:
    """Raise unless the last dimension holds probabilities that sum to 1."""
    if not probabilities.is_floating_point():
        raise ValueError(f"{name} must be a float tensor of probabilities, got {probabilities.dtype}")
    if not bool((probabilities >= 0).all()):
        raise ValueError(f"{name} must not be negative or NaN, got {probabilities.min().item():g}")
    total = probabilities.sum(-1)
    if not torch.allclose(total, torch.ones_like(total), atol=1e-5):
        raise ValueError(f"{name} must sum to 1, got {total.flatten()[(total - 1).abs().argmax()].item():g}")


class Oracle(ExactModel[Predicted_co]):
    """Any p_0, as a table of the probability of every sequence, [K] * L with one dimension per position."""

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
        self.p0 = self.table = p0
        for axis in range(p0.ndim):
            self._check_mask_unused(p0.movedim(axis, -1))

    def _leave_one_out(self, evidence: Logits) -> Logits:
        batch, places, rows = len(evidence), range(self.length), []
        shapes = [[self.process.vocab_size if axis == place else 1 for axis in places] for place in places]
        along = [evidence[:, place].view(batch, *shapes[place]) for place in places]
        for place in places:
            joint = self.p0.log().expand(batch, *self.p0.shape)
            joint = sum((along[other] for other in places if other != place), joint)
            others = [axis + 1 for axis in places if axis != place]
            rows.append(joint.logsumexp(others) if others else joint)
        return torch.stack(rows, 1)

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
