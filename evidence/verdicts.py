r"""From effects to a verdict, by a criterion that is written before the runs.

Every seed gives one effect: how much better the arm that the claim favours is than the other, on the same rows and
noise.  Their mean has a 95% interval [low, high] (Student's t over seeds), and with a margin m >= 0

    advantage    holds if low > -m,              does not hold if high < -m     (m = 0: better;  m > 0: as good as)
    equality     holds if -m < low, high < m,    does not hold if the interval lies outside [-m, m];

what is neither is undecided.  A claim holds if all its comparisons hold and does not if one of them does not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tokenloom.objectives.grouped_ratio import student_quantile

Verdict = Literal["holds", "does not hold", "undecided"]
Kind = Literal["advantage", "equality"]


@dataclass(frozen=True)
class Criterion:
    """When a comparison holds."""

    kind: Kind = "advantage"
    margin: float = 0.0

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise ValueError(f"a margin must be at least 0, got {self.margin:g}")

    def __call__(self, effect: "Effect") -> Verdict:
        """The verdict on an effect; undecided where it has no error."""
        low, high = effect.interval
        if self.kind == "advantage":
            return _verdict(low > -self.margin, high < -self.margin)
        inside = -self.margin < low and high < self.margin
        return _verdict(inside, low > self.margin or high < -self.margin)

    @property
    def words(self) -> str:
        """The criterion as it stands on the page."""
        if self.kind == "equality":
            return f"interval within ±{self.margin:g}"
        return "interval above 0" if self.margin == 0 else f"interval above -{self.margin:g}"


def _verdict(holds: bool, fails: bool) -> Verdict:
    return "holds" if holds else "does not hold" if fails else "undecided"


@dataclass(frozen=True)
class Effect:
    """The effects of all seeds."""

    by_seed: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Their mean; NaN without any."""
        return sum(self.by_seed) / len(self.by_seed) if self.by_seed else math.nan

    @property
    def half_width(self) -> float:
        """Half of the 95% interval; NaN below two seeds."""
        count = len(self.by_seed)
        if count < 2:
            return math.nan
        spread = sum((value - self.mean) ** 2 for value in self.by_seed) / (count - 1)
        return student_quantile(count - 1) * math.sqrt(spread / count)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the mean."""
        return self.mean - self.half_width, self.mean + self.half_width


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a claim from those on its comparisons."""
    if not verdicts:
        return "undecided"
    return _verdict(all(found == "holds" for found in verdicts), any(found == "does not hold" for found in verdicts))
