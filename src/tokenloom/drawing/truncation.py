r"""Temperature, top-k and top-p of a categorical law, without sorting the vocabulary.

    temperature T:  p_i -> p_i^(1/T)
    top-k:          keep the k most probable tokens
    top-p:          keep the smallest set of most probable tokens whose mass reaches p

in that order, after forbidden tokens are left out, each renormalised, a tie going to the smaller id.  Which posterior
is truncated matters: `Truncation.on` names the representation (the paper truncates the leave-one-out posterior, not
the denoiser).

The kept set is known from one number per row, its smallest probability, and a count for ties.  For top-p that number is
found digit by digit: floats that are not negative order as the integers of their bits, so three histograms of mass over
ten bits each (the later ones only over what shares the digits found so far) spell it out exactly, whatever the shape of
the row.  Rows shorter than a histogram are sorted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tokenloom.drawing.categorical import probabilities
from tokenloom.drawing.chunks import CACHED, by_chunks
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior
from tokenloom.support.checks import check_finite_maximum
from tokenloom.support.registry import build
from tokenloom.support.typed import check_fields, checked

DIGIT = 10
BASE = 1 << DIGIT
SORTED = BASE
"""The longest rows that are sorted."""
COLDEST = torch.finfo(torch.float32).tiny
"""A temperature that float32 cannot hold is its limit: only the most probable tokens are left, as they are here."""


@dataclass(frozen=True, kw_only=True)
class Sharpening:
    """Temperature and truncation of a prediction."""

    temperature: float = 1.0
    """Divides the logits: below 1 sharper, above 1 flatter."""
    top_p: float = 1.0
    """Keep the smallest set of most probable tokens with at least this mass, in (0, 1]."""
    top_k: int | None = None
    """Keep this many of the most probable tokens; None keeps all."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {self.top_k}")


@dataclass(frozen=True, kw_only=True)
class Truncation(Sharpening):
    """A sharpening of one representation, and tokens that are never drawn."""

    on: type[OverTokens] = LeaveOneOut
    """The posterior that temperature, top-p and top-k act on: the leave-one-out posterior or the denoiser."""
    forbid: Sequence[int] = ()
    """Token ids that are never drawn from a prediction.  Noise may hold them on the way, but at t = 0 they are gone,
    except where they are given or a sampler leaves noise in place (`Predictor.ends_predicted`)."""

    def __post_init__(self) -> None:
        if self.on is not Denoiser and self.on is not LeaveOneOut:
            raise ValueError(f"truncation is on Denoiser or LeaveOneOut, got {self.on!r}")
        super().__post_init__()
        object.__setattr__(self, "forbid", tuple(self.forbid))
        if any(token < 0 for token in self.forbid):
            raise ValueError(f"forbid must hold token ids, got {min(self.forbid)}")

    @property
    def changes_nothing(self) -> bool:
        """True if every prediction passes unchanged."""
        return (self.temperature, self.top_p, self.top_k, self.forbid) == (1, 1, None, ())

    def record(self) -> dict[str, object]:
        """Return the settings as JSON."""
        settings = {"temperature": self.temperature, "top_p": self.top_p, "top_k": self.top_k}  # a Sampler has more
        return settings | {"on": self.on.__name__, "forbid": list(self.forbid)}

    @classmethod
    def restore(cls, record: Mapping[str, Any]) -> "Truncation":
        """Rebuild a truncation from its `record`."""
        kinds = {kind.__name__: kind for kind in (Denoiser, LeaveOneOut)}
        return build(cls, {**record, "on": kinds.get(str(record.get("on")), record.get("on"))}, "a truncation")

    @checked
    def truncated(self, posterior: Posterior) -> OverTokens:
        """Truncate a prediction."""
        if not isinstance(posterior, self.on):
            raise ValueError(
                f"this truncation is on {self.on.__name__}, got {type(posterior).__name__}; "
                "convert the prediction first"
            )
        return self.on(truncate(posterior.logits, self))


@checked
def truncate(logits: Float[Tensor, "*shape vocab"], truncation: Truncation) -> Float[Tensor, "*shape vocab"]:
    """Logits with -inf outside the kept set."""
    check_finite_maximum("logits", logits)
    return truncate_checked(logits, truncation)


def truncate_checked(
    logits: Float[Tensor, "*shape vocab"], truncation: Truncation, asks: bool = True
) -> Float[Tensor, "*shape vocab"]:
    """`truncate` without checks; with `asks=False` the host never waits for values of the device."""
    if truncation.changes_nothing:
        return logits
    rows = logits.reshape(-1, logits.shape[-1])
    kept = by_chunks(len(rows), rows.shape[1], lambda part: _truncated(rows[part], truncation, asks), CACHED)
    return kept.view(logits.shape)


def _truncated(rows: Float[Tensor, "rows vocab"], truncation: Truncation, asks: bool) -> Float[Tensor, "rows vocab"]:
    if truncation.forbid:
        if max(truncation.forbid) >= rows.shape[-1]:
            raise ValueError(f"forbid must hold token ids in 0..{rows.shape[-1] - 1}, got {max(truncation.forbid)}")
        rows = rows.index_fill(-1, torch.tensor(truncation.forbid, device=rows.device), -torch.inf)
        if asks:
            check_finite_maximum("logits without the forbidden tokens", rows)
    if truncation.temperature != 1:
        wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
        rows = (wide - wide.amax(-1, keepdim=True)) / max(truncation.temperature, COLDEST)
    if truncation.top_k is not None and truncation.top_k < rows.shape[-1]:
        rows = rows.masked_fill(~top_k_set(rows, truncation.top_k), -torch.inf)
    if truncation.top_p < 1:
        rows = rows.masked_fill(~top_p_set(probabilities(rows), truncation.top_p, asks), -torch.inf)
    return rows


def top_k_set(values: Float[Tensor, "rows vocab"], k: int) -> Bool[Tensor, "rows vocab"]:
    """Return flags of the k largest values of each row."""
    largest = values.topk(k, dim=-1).values
    smallest = largest[:, -1:]
    ties = (largest == smallest).sum(-1, keepdim=True)
    return _keep(values, smallest, ties, torch.ones_like(ties, dtype=torch.bool))


def top_p_set(probs: Float[Tensor, "rows vocab"], p: float, asks: bool = True) -> Bool[Tensor, "rows vocab"]:
    """Return flags of the smallest set of most probable tokens with mass >= p; `probs` are float32."""
    short = probs.shape[-1] <= SORTED or not asks  # digits need values on the host
    return _by_sorting(probs, p) if short else _by_digits(probs, p)


def _by_sorting(probs: Tensor, p: float) -> Tensor:
    """Keep a token if the more probable ones, and its equals of smaller id, have less mass than p."""
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    mass = ordered.double().cumsum(-1)
    kept = mass - ordered < mass[:, -1:].clamp(max=p)  # rounding may leave even the whole mass below p
    return torch.zeros_like(probs, dtype=torch.bool).scatter(-1, order, kept)


def _by_digits(probs: Tensor, p: float) -> Tensor:
    flat = probs.contiguous().view(-1)
    bits = flat.view(torch.int32)  # at most 1.0, which is below 2^30
    leading = (bits >> (2 * DIGIT)).view_as(probs)
    masses = probs.new_zeros((len(probs), BASE), dtype=torch.float64).scatter_add_(1, leading.long(), probs.double())
    target = masses.sum(-1).clamp(max=p)  # rounding may leave even the whole mass below p
    above, found = _next_digit(masses, torch.zeros_like(target), target)
    place = (leading == found[:, None].int()).view(-1).nonzero().squeeze(1)
    row = place.div(probs.shape[1], rounding_mode="floor")
    key, mass, smallest = bits[place], flat[place].double(), found
    for shift in (DIGIT, 0):
        digit = (key >> shift) & (BASE - 1)
        masses = torch.zeros_like(masses).view(-1).scatter_add_(0, row * BASE + digit, mass).view_as(masses)
        above, found = _next_digit(masses, above, target)
        same = digit == found[row]
        row, key, mass, smallest = row[same], key[same], mass[same], smallest << DIGIT | found
    value = smallest.int().view(torch.float32)
    available = torch.bincount(row, minlength=len(probs))
    ties = torch.ceil((target - above) / value).long().minimum(available)
    return _keep(probs, value[:, None], ties[:, None], (ties < available)[:, None])


def _next_digit(masses: Tensor, above: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest digit at which the mass from the top reaches the target, and the mass above it."""
    from_top = above[:, None] + masses.flip(-1).cumsum(-1).flip(-1)
    smallest_filled = (masses > 0).int().argmax(-1)
    found = ((from_top >= target[:, None]).sum(-1) - 1).maximum(smallest_filled)
    beyond = torch.cat([from_top, above[:, None]], -1).gather(-1, found[:, None] + 1).squeeze(-1)
    return beyond, found


def _keep(values: Tensor, smallest: Tensor, ties: Tensor, more_ties: Tensor) -> Tensor:
    """Everything above `smallest`, and the first `ties` entries equal to it (all of them unless `more_ties`)."""
    keep = values >= smallest
    rows = more_ties.squeeze(-1).nonzero().squeeze(-1)
    if len(rows):
        tied = values[rows] == smallest[rows]
        keep[rows] &= ~tied | (tied.cumsum(-1) <= ties[rows])
    return keep
