r"""What a prediction is: the denoiser, the leave-one-out posterior or the score, and the exact maps between them.

    Denoiser      mu_k = p(x_0^l = k | x_t)
    LeaveOneOut   nu_k = p(x_0^l = k | x_t without position l)
    Score         s_y  = p_t(x_t with y at position l) / p_t(x_t)

With the evidence a of position l's own token (`process.py`), for any noise law pi, position by position:

    mu = softmax(log nu + a at x_t)                              (`eq:udm-loo-to-denoiser-matrix`)
    nu = softmax(log mu - a at x_t), where a is finite           (`eq:loo-from-denoiser-general`)
    p_t(x_t^l = y | x_t^{-l}) = alpha nu_y + (1 - alpha) pi_y    (`prop:gibbs-conditional`)
    s_y = p_t(y | x_t^{-l}) / p_t(x_t^l | x_t^{-l})              (`eq:score-ratio-loo`)

Everything stays in log space; logits are defined up to a constant per position.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, TypeVar, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from typing_extensions import TypeVar as DefaultTypeVar

from tokenloom.state import Noisy
from tokenloom.support.checks import check_logits, check_same_shape, check_time, check_tokens
from tokenloom.support.typed import checked
from tokenloom.types import Auxiliary, Flags, Logits, PerPosition, PerRow, StateLogProbs, Tokens


@runtime_checkable
class NoiseLaw(Protocol):
    """The law of a lost token, as far as a conversion needs it."""

    def log_probs(self, device: torch.device) -> Float[Tensor, "#batch #length states"]:
        """log w over all states."""


@runtime_checkable
class Law(Protocol):
    """The part of a process that conversions need; see `process.py`."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def num_states(self) -> int: ...
    def time_at(self, alpha: PerRow) -> PerRow: ...
    def law(self, noisy: Noisy) -> NoiseLaw: ...
    def evidence(self, noisy: Noisy) -> PerPosition: ...
    def level(self, noisy: Noisy) -> PerPosition: ...
    def restrict(self, logits: Logits) -> Logits: ...


class Posterior(ABC):
    """A typed prediction.  Each representation knows its way to the leave-one-out posterior and back."""

    @abstractmethod
    def check(self, noisy: Noisy, process: Law) -> None:
        """Raise unless this is a prediction for that state."""

    @abstractmethod
    def to_leave_one_out(self, noisy: Noisy, process: Law) -> "LeaveOneOut":
        """Return the leave-one-out posterior that this prediction implies."""

    @classmethod
    @abstractmethod
    def from_leave_one_out(cls, leave_one_out: "LeaveOneOut", noisy: Noisy, process: Law) -> "Posterior":
        """This representation of what the leave-one-out posterior says; it always exists."""


@dataclass(frozen=True)
class OverTokens(Posterior):
    """A prediction that is a law over clean tokens, given by its logits."""

    logits: Float[Tensor, "batch length vocab"]
    """Logits over the K real tokens, defined up to a constant per position; -inf is impossible."""

    @property
    def log_probs(self) -> Float[Tensor, "batch length vocab"]:
        """Normalised, in float32 or better."""
        return torch.log_softmax(self.logits, -1, dtype=torch.promote_types(self.logits.dtype, torch.float32))

    @cached_property
    def probabilities(self) -> Float[Tensor, "batch length vocab"]:
        """Each to its own relative accuracy; computed once, for weights and draws alike."""
        exact = self.logits.requires_grad  # what underflows has no gradient, and float32 underflows at gaps of 100 nats
        return torch.softmax(
            self.logits, -1, dtype=torch.promote_types(self.logits.dtype, torch.float64 if exact else torch.float32)
        )

    def probability_of(self, tokens: Tokens) -> PerPosition:
        """Return the probability of one token per position, in float64; 0 for a mask outside the vocabulary."""
        is_token = tokens < self.logits.shape[-1]
        own = self.probabilities.gather(-1, torch.where(is_token, tokens, 0).unsqueeze(-1)).squeeze(-1)
        return own.double().masked_fill(~is_token, 0)

    def probability_of_others(self, tokens: Tokens) -> PerPosition:
        """Return the probability of all other tokens, without a difference from 1."""
        is_token = (tokens < self.logits.shape[-1]).unsqueeze(-1)
        index = torch.where(is_token.squeeze(-1), tokens, 0).unsqueeze(-1)
        hidden = torch.where(is_token, 0, self.probabilities.gather(-1, index))
        return self.probabilities.scatter(-1, index, hidden).sum(-1).double()

    def check(self, noisy: Noisy, process: Law) -> None:
        check_logits("logits", self.logits, noisy.tokens, process.vocab_size)


class LeaveOneOut(OverTokens):
    """Logits of p(x_0^l | x_t^{-l}): position l's own noisy token is not seen."""

    def to_leave_one_out(self, noisy: Noisy, process: Law) -> "LeaveOneOut":
        return self

    @classmethod
    def from_leave_one_out(cls, leave_one_out: "LeaveOneOut", noisy: Noisy, process: Law) -> "LeaveOneOut":
        return leave_one_out


class Denoiser(OverTokens):
    """Logits of p(x_0^l | x_t): every position is seen."""

    def to_leave_one_out(self, noisy: Noisy, process: Law) -> LeaveOneOut:
        evidence = process.evidence(noisy)
        return LeaveOneOut(add_evidence(process.restrict(self.logits), noisy.tokens, -evidence))

    @classmethod
    def from_leave_one_out(cls, leave_one_out: LeaveOneOut, noisy: Noisy, process: Law) -> "Denoiser":
        logits = process.restrict(leave_one_out.logits)
        return Denoiser(add_evidence(logits, noisy.tokens, process.evidence(noisy)))


@dataclass(frozen=True)
class Score(Posterior):
    """log p_t(y) - log p_t(x_t) for each state y of one position; the entry at x_t is 0 by definition."""

    log_ratios: Float[Tensor, "batch length states"]
    """log p_t(x_t with y at position l) - log p_t(x_t), for each state y."""

    def check(self, noisy: Noisy, process: Law) -> None:
        check_logits("log_ratios", self.log_ratios, noisy.tokens, process.num_states)

    def to_leave_one_out(self, noisy: Noisy, process: Law) -> LeaveOneOut:
        r"""alpha nu = s / sum(s) - (1 - alpha) pi, a difference, and so in float64.

        With h_y = log(s_y / pi_y) shifted to be 0 at its smallest on the support of pi, and the excess
        S = sum_y pi_y expm1(h_y) + sum over pi_y = 0 of the shifted s_y, it is free of cancellation for small alpha:
        nu_y = pi_y (expm1(h_y) + alpha - (1 - alpha) S) / (alpha (1 + S)).
        A learnt score that belongs to no distribution gives negative entries; they become 0, and where nothing is left
        the law is uniform.
        """
        noisy = replace(noisy, alpha_t=noisy.alpha_t.double())
        alpha, log_pi = process.level(noisy).unsqueeze(-1), process.law(noisy).log_probs(noisy.tokens.device)
        log_ratios = self.log_ratios.double().scatter(-1, noisy.tokens.unsqueeze(-1), 0.0)
        supported = log_pi.isfinite().expand_as(log_ratios)
        ratio = torch.where(supported, log_ratios - log_pi, torch.inf)
        smallest = ratio.amin(-1, keepdim=True).nan_to_num(posinf=0.0, neginf=0.0)  # the formula holds for any shift
        gain = torch.where(supported, torch.expm1(ratio - smallest), 0)
        unsupported = torch.where(supported, 0, torch.exp(log_ratios - smallest))
        excess = (log_pi.exp() * gain + unsupported).sum(-1, keepdim=True)
        mass = log_pi.exp() * (gain + alpha - (1 - alpha) * excess) + unsupported
        log_mass = process.restrict(mass.clamp(min=0).log()[..., : process.vocab_size])
        nothing = process.restrict(torch.zeros_like(log_mass))
        possible = (log_mass > -torch.inf).any(-1, keepdim=True)
        return LeaveOneOut(torch.where(possible, log_mass, nothing).to(self.log_ratios.dtype))

    @classmethod
    def from_leave_one_out(cls, leave_one_out: LeaveOneOut, noisy: Noisy, process: Law) -> "Score":
        base, excess = _conditional_parts(leave_one_out, noisy, process)
        own = noisy.tokens.unsqueeze(-1)
        return Score((base - base.gather(-1, own)) + (excess - excess.gather(-1, own)))


Representation = TypeVar("Representation", bound=Posterior)
Predicted_co = DefaultTypeVar("Predicted_co", bound=Posterior, covariant=True, default=Posterior)
"""The representation that a model predicts; any of them by default."""
Asked = DefaultTypeVar("Asked", bound=Posterior, default=LeaveOneOut)
"""The representation asked for by `predicts`; the type of a model built without it is that of a `LeaveOneOut`."""


@checked
def convert(
    posterior: Posterior,
    to: type[Representation],
    x_t: Tokens,
    alpha_t: PerRow,
    process: Law,
    aux: Auxiliary | None = None,
) -> Representation:
    """Convert a prediction to another representation.

    Raises:
        ValueError: If an argument does not fit, or the map does not exist: a position that its own token reveals (a
            visible token of a masked process, or alpha = 1) has lost its leave-one-out posterior, and at alpha = 0 the
            score says nothing of x_0.
    """
    check_representation(to, "a prediction converts to")
    check_tokens("x_t", x_t, process.num_states)
    check_time("alpha_t", alpha_t, x_t)
    if aux is not None:
        check_same_shape("aux", aux, x_t)
    noisy = Noisy(x_t, process.time_at(alpha_t), alpha_t, aux)
    posterior.check(noisy, process)
    if isinstance(posterior, to):
        return posterior
    if isinstance(posterior, Score) and bool((process.level(noisy) == 0).any()):
        raise ValueError("at alpha_t = 0 every state has the same score, which says nothing of x_0; use alpha_t > 0")
    revealed = process.evidence(noisy).isposinf()
    if isinstance(posterior, Denoiser) and bool(revealed.any()):
        row, position = revealed.nonzero()[0].tolist()
        raise ValueError(
            f"the denoiser at row {row}, position {position} has no leave-one-out posterior: its own token "
            f"{int(x_t[row, position])} reveals x_0 at alpha_t = {alpha_t[row].item():g}, so the "
            "denoiser is a point mass whatever the other positions say; predict the leave-one-out posterior itself"
        )
    converted = convert_at(posterior, to, noisy, process)
    if isinstance(converted, Score) and len(wrong := converted.log_ratios.isnan().any(-1).nonzero()):
        row, position = wrong[0].tolist()
        raise ValueError(
            f"the token {int(x_t[row, position])} at row {row}, position {position} is impossible at its level and "
            "auxiliary variable, so it has no score; pass x_t, alpha_t and aux of one state"
        )
    return converted


def convert_at(posterior: Posterior, to: type[Representation], noisy: Noisy, process: Law) -> Representation:
    """`convert` without checks, at a whole state, given positions included."""
    if isinstance(posterior, to):
        return posterior
    converted = to.from_leave_one_out(posterior.to_leave_one_out(noisy, process), noisy, process)
    assert isinstance(converted, to)
    return converted


@checked
def conditional_log_probs(leave_one_out: LeaveOneOut, noisy: Noisy, process: Law) -> StateLogProbs:
    """log p_t(x_t^l = y | x_t^{-l}) = log(alpha nu_y + (1 - alpha) pi_y), the Gibbs conditional of each position."""
    leave_one_out.check(noisy, process)
    return gibbs_conditional(leave_one_out, noisy, process)


def gibbs_conditional(leave_one_out: LeaveOneOut, noisy: Noisy, process: Law) -> StateLogProbs:
    """`conditional_log_probs`, without checks."""
    base, excess = _conditional_parts(leave_one_out, noisy, process)
    return base + excess


def _conditional_parts(leave_one_out: LeaveOneOut, noisy: Noisy, process: Law) -> tuple[Tensor, Tensor]:
    """Return the conditional as base + excess: log((1 - alpha) pi_y) and log(1 + alpha nu_y / ((1 - alpha) pi_y)).

    Kept apart because the excess alone carries the signal when alpha is small; where (1 - alpha) pi_y = 0 the base
    takes all.
    """
    log_nu = LeaveOneOut(process.restrict(leave_one_out.logits)).log_probs
    log_nu = F.pad(log_nu, (0, process.num_states - process.vocab_size), value=-torch.inf)
    alpha = process.level(noisy).to(log_nu.dtype).unsqueeze(-1)
    signal = alpha.log() + log_nu
    base = torch.log1p(-alpha) + process.law(noisy).log_probs(noisy.tokens.device).to(log_nu.dtype)
    noisy_state = base.isfinite()
    excess = torch.where(noisy_state, F.softplus(signal - torch.where(noisy_state, base, 0)), 0)
    return torch.where(noisy_state, base, signal), excess


def as_posterior(logits: Tensor, predicts: type[Representation]) -> Representation:
    """Wrap logits, unchanged, as what they are."""
    return predicts(logits)  # type: ignore[call-arg]


REPRESENTATIONS: dict[str, type[Posterior]] = {"loo": LeaveOneOut, "denoiser": Denoiser, "score": Score}
"""The names of the three representations on the command line and in files."""


def check_representation(value: object, what: str = "predicts must be") -> None:
    """Raise unless this is one of the three representations."""
    if not any(value is kind for kind in REPRESENTATIONS.values()):  # by identity, as arrays compare by element
        raise ValueError(f"{what} Denoiser, LeaveOneOut or Score, got {value!r}")


def add_evidence(logits: Logits, x_t: Tokens, evidence: PerPosition) -> Logits:
    """Add the evidence at x_t: +inf makes a point mass; a mask outside the vocabulary changes nothing."""
    is_token = x_t < logits.shape[-1]
    shift = torch.where(is_token & evidence.isfinite(), evidence, 0).to(logits.dtype).unsqueeze(-1)
    shifted = logits.scatter_add(-1, torch.where(is_token, x_t, 0).unsqueeze(-1), shift)
    return carry_over(shifted, x_t, evidence.isposinf())


def carry_over(logits: Logits, x_t: Tokens, revealed: Flags) -> Logits:
    """Put a point mass on x_t where it is revealed and in the vocabulary; keep the logits elsewhere."""
    known = (revealed & (x_t < logits.shape[-1])).unsqueeze(-1)
    if known.is_cpu and not bool(known.any()):  # elsewhere the host would have to wait for the answer
        return logits
    index = torch.where(known.squeeze(-1), x_t, 0).unsqueeze(-1)
    own = torch.where(known, 0, logits.gather(-1, index))
    return logits.masked_fill(known, -torch.inf).scatter_(-1, index, own)
