r"""Temperature, top-k and top-p of a categorical law.

    temperature T:  p_i -> p_i^(1/T)
    top-k:          keep the k most probable tokens
    top-p:          keep the smallest set of most probable tokens whose mass reaches p

in that order, after forbidden tokens are left out, each renormalised, a tie going to the smaller id.  Which posterior
is truncated matters: `Truncation.on` names the representation (the paper truncates the leave-one-out posterior, not
the denoiser).

The kept set is known from one number per row, its smallest logit, and a count for ties.  For top-k a partial sort finds
it.  For top-p the logits of a row are sorted by NumPy, whose sort is that of the processor's vector units, and their
mass is added up from the top in float64; what cannot be in the set is not sorted:

    a token of probability below (1 - p)/K is never needed: all of its kind together have less mass than 1 - p.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tokenloom.drawing.categorical import probabilities
from tokenloom.drawing.chunks import by_chunks
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior
from tokenloom.support.checks import check_finite_maximum
from tokenloom.support.registry import build
from tokenloom.support.typed import check_fields, checked

SHORT = 1024
"""The longest rows that PyTorch sorts, all at once."""
BLOCK = 256
"""Sorted tokens whose mass is added up at once."""
FEW = 1 / 8
"""The share of a row below which what is sorted is worth taking out of it first."""
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
    kept = by_chunks(len(rows), rows.shape[1], lambda part: _truncated(rows[part], truncation, asks))
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
        rows = cut_top_p(rows, truncation.top_p, asks)
    return rows


def top_k_set(values: Float[Tensor, "rows vocab"], k: int) -> Bool[Tensor, "rows vocab"]:
    """Return flags of the k largest values of each row."""
    largest = values.topk(k, dim=-1).values
    smallest = largest[:, -1:]
    ties = (largest == smallest).sum(-1, keepdim=True)
    return _keep(values, smallest, ties, torch.ones_like(ties, dtype=torch.bool))


def cut_top_p(rows: Float[Tensor, "rows vocab"], p: float, asks: bool = True) -> Float[Tensor, "rows vocab"]:
    """Return the logits with -inf outside the smallest set of most probable tokens whose mass reaches p."""
    if rows.shape[-1] <= SHORT or not asks:  # NumPy needs values on the host
        return rows.masked_fill(~_by_sorting(rows, p), -torch.inf)
    rows = rows.to(torch.promote_types(rows.dtype, torch.float32), copy=True)
    for row, weights in zip(rows, probabilities(rows), strict=True):
        smallest, ties = _smallest_kept(weights, p)
        equal = torch.from_numpy(np.flatnonzero(weights.numpy() == smallest))
        equal = equal[row[equal].argsort(descending=True, stable=True)]  # float32 may not tell their weights apart
        lowest = row[equal[ties - 1]]
        torch.threshold_(row, float(lowest.nextafter(lowest.new_tensor(-torch.inf))), -torch.inf)
        row[equal[ties:]] = -torch.inf
    return rows


def _smallest_kept(weights: Float[Tensor, "vocab"], p: float) -> tuple[float, int]:
    """Return the smallest weight in the set, and the number of tokens in it that have it."""
    values, total = weights.numpy(), weights.sum(dtype=torch.float64).item()
    needed = values >= total * (1 - p) / (2 * len(values))  # twice as many as are needed, for rounding
    few = np.count_nonzero(needed) < FEW * len(values)
    ordered = np.sort(values[needed] if few else values)
    rest = len(ordered) % BLOCK
    blocks = torch.from_numpy(ordered[rest:]).view(-1, BLOCK).sum(1, dtype=torch.float64).numpy()
    upto = np.append(blocks[::-1], ordered[:rest].sum(dtype=np.float64)).cumsum()
    target = min(p * total, upto[-1])  # rounding may leave even the whole mass below it
    block = int(upto.searchsorted(target))
    end = len(ordered) - BLOCK * block
    within = ordered[max(end - BLOCK, 0) : end][::-1].cumsum(dtype=np.float64)
    above = upto[block - 1] if block else 0.0
    kept = BLOCK * block + min(int(within.searchsorted(target - above)) + 1, len(within))
    smallest = ordered[-kept]
    return float(smallest), kept - int(len(ordered) - ordered.searchsorted(smallest, "right"))


def _by_sorting(rows: Tensor, p: float) -> Tensor:
    """Flag a token if the more probable ones, and its equals of smaller id, have less mass than p."""
    ordered, order = rows.sort(dim=-1, descending=True, stable=True)
    weights = probabilities(ordered).double()
    mass = weights.cumsum(-1)
    kept = mass - weights < p * mass[:, -1:]
    return torch.zeros_like(rows, dtype=torch.bool).scatter(-1, order, kept)


def _keep(values: Tensor, smallest: Tensor, ties: Tensor, more_ties: Tensor) -> Tensor:
    """Everything above `smallest`, and the first `ties` entries equal to it (all of them unless `more_ties`)."""
    keep = values >= smallest
    rows = more_ties.squeeze(-1).nonzero().squeeze(-1)
    if len(rows):
        tied = values[rows] == smallest[rows]
        keep[rows] &= ~tied | (tied.cumsum(-1) <= ties[rows])
    return keep
