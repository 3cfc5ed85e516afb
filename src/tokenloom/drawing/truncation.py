r"""Temperature, top-k and top-p of a categorical law, without sorting the vocabulary.

    temperature T:  p_i -> p_i^(1/T)
    top-k:          keep the k most probable tokens
    top-p:          keep the smallest set of most probable tokens whose mass reaches p

in that order, after forbidden tokens are left out, each renormalised, a tie going to the smaller id.  Which posterior
is truncated matters: `Truncation.on` names the representation (the paper truncates the leave-one-out posterior, not
the denoiser).

The kept set is known from one number per row, its smallest probability, and a count for ties.  For top-p that number is
sought row by row, in a cache: the mass above a guess is a pass at the speed of memory, false position narrows the
bracket, and its last few values are taken one by one.  Masses are float32 until they are too near p to tell, then
float64.  Short rows are sorted.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from tokenloom.drawing.categorical import probabilities
from tokenloom.drawing.chunks import CACHED, by_chunks
from tokenloom.posteriors import Denoiser, LeaveOneOut, OverTokens, Posterior
from tokenloom.support.checks import check_finite_maximum
from tokenloom.support.registry import build
from tokenloom.support.typed import check_fields, checked

SORTED = 1024
"""The longest rows that are sorted."""
SAMPLE = 512
"""Tokens of a row that the first guess is made from."""
FEW = 2.5
"""So many values, at most, are taken one by one."""
MOST_ROUNDS = 64
"""Guesses after which the row is sorted; a dozen is usual."""
ROUNDING = 5e-7
"""What a float32 sum of probabilities may be off by."""
NEARLY_ONE = 1 - 1e-4
"""Beyond this the mass that rounding has left of a row counts."""
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
        rows = rows + log_top_p_set(probabilities(rows), truncation.top_p, asks).to(rows.dtype)
    return rows


def top_k_set(values: Float[Tensor, "rows vocab"], k: int) -> Bool[Tensor, "rows vocab"]:
    """Return flags of the k largest values of each row."""
    largest = values.topk(k, dim=-1).values
    smallest = largest[:, -1:]
    ties = (largest == smallest).sum(-1, keepdim=True)
    return _keep(values, smallest, ties, torch.ones_like(ties, dtype=torch.bool))


def log_top_p_set(probs: Float[Tensor, "rows vocab"], p: float, asks: bool = True) -> Float[Tensor, "rows vocab"]:
    """Return 0 for the smallest set of most probable tokens with mass >= p, and -inf for others; overwrites `probs`.

    Logits are cut by adding it, which is several times faster than by flags that follow no pattern.
    """
    if probs.shape[-1] <= SORTED or not asks:  # a search needs values on the host
        return torch.where(_by_sorting(probs, p), 0.0, -torch.inf)
    for row in probs:
        found = _smallest_kept(row, p)
        if found is None:
            row.masked_fill_(~_by_sorting(row[None], p)[0], -torch.inf)
            continue
        value, ties, equal = found
        dropped = (row == value).nonzero().squeeze(1)[ties:] if ties < equal else None
        torch.threshold_(row, _next(value, 0), -torch.inf)
        if dropped is not None:
            row[dropped] = -torch.inf
    return probs.clamp_(max=0)


def _by_sorting(probs: Tensor, p: float) -> Tensor:
    """Flag a token if the more probable ones, and its equals of smaller id, have less mass than p."""
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    mass = ordered.double().cumsum(-1)
    kept = mass - ordered < mass[:, -1:].clamp(max=p)  # rounding may leave even the whole mass below p
    return torch.zeros_like(probs, dtype=torch.bool).scatter(-1, order, kept)


def _smallest_kept(row: Tensor, p: float) -> tuple[float, int, int] | None:
    """Return the smallest probability that is kept, the number of tokens kept that have it, and of all that have it.

    None where rounding leaves it open: a sort, which adds up in another order, then decides.
    """
    target = p if p < NEARLY_ONE else min(p, float(row.sum(dtype=torch.float64)))
    low, high = 0.0, float(row.amax())  # mass above high < target <= mass above low, throughout
    above_low, above_high, excess, lack = 1.0, 0.0, 1 - target, target
    guesses, idle, moved, negative = _first_guesses(row, target), False, 0, -row
    for _ in range(MOST_ROUNDS):
        walks = idle or target - above_high < FEW * high  # from value to value, where few are left or many are equal
        if walks:
            value = _largest_below(negative, _next(high, 2))
            point = _next(value, 0)
        else:
            aim = excess + min(1.5 * low, lack / 2)  # lands just above the value that is sought
            least = max(low, (1 - target) / len(row) / 2)
            point = guesses.pop() if guesses else _between(least, high, aim / (excess + lack))
            if not low < point < high:
                idle = not guesses
                continue
        above = _mass_above(row, point)
        if above >= target and walks:
            return _verified(row, negative, value, above_high, above, target)
        idle = not walks and above in (above_low, above_high)
        if above < target:  # the other end counts less if it stays again (the Illinois rule)
            excess = excess / 2 if moved > 0 else excess
            high, above_high, lack, moved = point, above, target - above, 1
        else:
            lack = lack / 2 if moved < 0 else lack
            low, above_low, excess, moved = point, above, above - target, -1
    return None


def _first_guesses(row: Tensor, target: float) -> list[float]:
    """Return two probabilities between which the sought one lies, if a few tokens are like all."""
    sample = row[:: max(1, len(row) // SAMPLE)].sort(descending=True).values
    mass = sample.cumsum(0)
    rank, spread = int((mass < target * mass[-1]).sum()), len(sample) // 24
    return [float(sample[min(rank + spread, len(sample) - 1)]), float(sample[max(rank - spread, 0)])]


def _between(low: float, high: float, share: float) -> float:
    """Return the number this share of the way, counted in logarithms where that is far."""
    return _rounded(low * (high / low) ** share if high > 4 * low else low + (high - low) * share)


def _mass_above(row: Tensor, value: float, dtype: torch.dtype | None = None) -> float:
    return float(F.hardshrink(row, value).sum(dtype=dtype))


def _largest_below(negative: Tensor, value: float) -> float:
    return -float(F.threshold(negative, -value, 2.0).amin())


def _verified(
    row: Tensor, negative: Tensor, value: float, above: float, upto: float, target: float
) -> tuple[float, int, int] | None:
    """Return what `_smallest_kept` does from a value and the masses above and from it, or from its neighbours."""
    alone = upto - above < 1.5 * value and 4 * ROUNDING < value
    sure = alone and above + ROUNDING < target <= upto - ROUNDING
    for _ in range(0 if sure else MOST_ROUNDS):
        above, upto = (_mass_above(row, point, torch.float64) for point in (value, _next(value, 0)))
        if above < target <= upto:
            break
        value = _largest_below(negative, value) if upto < target else float(F.threshold(row, value, 2.0).amin())
    else:
        if not sure:
            return None
    equal = round((upto - above) / value)
    return value, min(max(1, math.ceil((target - above) / value)), equal), equal


def _rounded(value: float) -> float:
    return float(np.float32(value))


def _next(value: float, towards: float) -> float:
    return float(np.nextafter(np.float32(value), np.float32(towards)))


def _keep(values: Tensor, smallest: Tensor, ties: Tensor, more_ties: Tensor) -> Tensor:
    """Everything above `smallest`, and the first `ties` entries equal to it (all of them unless `more_ties`)."""
    keep = values >= smallest
    rows = more_ties.squeeze(-1).nonzero().squeeze(-1)
    if len(rows):
        tied = values[rows] == smallest[rows]
        keep[rows] &= ~tied | (tied.cumsum(-1) <= ties[rows])
    return keep
