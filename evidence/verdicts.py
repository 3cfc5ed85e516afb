r"""From effects to verdicts, by criteria that are written before the runs.

Every seed gives one effect: how much better the arm that the claim favours is than the other, on the same rows and
noise.  Their mean has two sources of error.  The networks differ between the n seeds, with the variance s^2; and all
seeds share the rows they are measured on.  Of the latter G groups of rows tell: d_g is the mean over seeds of the
effect on the rows of group g, and v^2 the variance of d_g over groups.

    SE^2 = s^2 / n + v^2 / G        freedom = SE^4 / ( (s^2/n)^2 / (n - 1) + (v^2/G)^2 / (G - 1) )

(Welch and Satterthwaite; the noise of a single measurement is in both terms, which errs on the safe side).  Figures
whose rows or noise differ by seed have no groups: that variation is in s^2.  With a margin m >= 0 and Student's law,

    advantage    p = 2 P(T > |effect + m| / SE)            holds above -m, does not hold below it
    equality     p = 2 P(T > (m - |effect|) / SE)          holds inside [-m, m]: the worse of two one-sided tests
                 p = 2 P(T > (|effect| - m) / SE)          does not hold outside

so p < 5% says of a single comparison what its 95% interval says.  Those that decide one claim together are corrected by
Holm's procedure: the chance that any of them is decided wrongly is at most 5%.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.stats import t as student

Verdict = Literal["holds", "does not hold", "undecided"]
Overall = Literal["holds", "does not hold", "holds in part", "undecided"]
Kind = Literal["advantage", "equality"]
LEVEL = 0.05
"""The chance of a wrong verdict: of one comparison, or of any among those that decide a claim."""


@dataclass(frozen=True)
class Effect:
    """The effects of all seeds, and those of groups of shared rows, if there are any."""

    by_seed: tuple[float, ...]
    by_group: tuple[float, ...] = ()
    """Means over all seeds, group by group."""

    @property
    def mean(self) -> float:
        """Their mean; NaN without any."""
        return sum(self.by_seed) / len(self.by_seed) if self.by_seed else math.nan

    @property
    def _parts(self) -> list[tuple[float, int]]:
        """The squared errors, of seeds and of groups, with their degrees of freedom."""
        return [(_squared_error(values), len(values) - 1) for values in (self.by_seed, self.by_group) if values]

    @property
    def standard_error(self) -> float:
        """The standard error of the mean; NaN below two seeds."""
        return math.sqrt(sum(square for square, _ in self._parts)) if self.by_seed else math.nan

    @property
    def freedom(self) -> float:
        """The degrees of freedom of the standard error; those of the seeds where it is 0."""
        spread = sum(square**2 / freedom for square, freedom in self._parts if freedom)
        return self.standard_error**4 / spread if spread > 0 else max(len(self.by_seed) - 1, 1)

    @property
    def half_width(self) -> float:
        """Half of the 95% interval; NaN below two seeds."""
        return float(student.isf(LEVEL / 2, self.freedom)) * self.standard_error

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the mean."""
        return self.mean - self.half_width, self.mean + self.half_width

    def tail(self, distance: float) -> float:
        """The probability of a mean that lies `distance` or more above the truth."""
        if self.standard_error == 0:
            return 0.5 if distance == 0 else float(distance < 0)
        return float(student.sf(distance / self.standard_error, self.freedom))


def _squared_error(values: Sequence[float]) -> float:
    """The squared standard error of a mean; NaN of a single value."""
    count = len(values)
    if count < 2:
        return math.nan
    mean = sum(values) / count
    return sum((value - mean) ** 2 for value in values) / (count - 1) / count


@dataclass(frozen=True)
class Criterion:
    """When a comparison holds."""

    kind: Kind = "advantage"
    margin: float = 0.0

    def __post_init__(self) -> None:
        if not self.margin >= 0:
            raise ValueError(f"a margin must be at least 0, got {self.margin:g}")

    def test(self, effect: Effect) -> tuple[float, Verdict]:
        """The p-value of an effect, and the verdict where it is small enough; NaN where nothing can be said."""
        above, below = effect.tail(effect.mean + self.margin), effect.tail(-effect.mean - self.margin)
        if self.kind == "advantage":
            holds, fails = above, below
        else:
            low, high = effect.tail(self.margin - effect.mean), effect.tail(effect.mean - self.margin)
            holds, fails = max(above, low), min(below, high)
        return 2 * min(holds, fails), "holds" if holds < fails else "does not hold"

    def __call__(self, effect: Effect) -> Verdict:
        """The verdict on an effect alone; undecided where it has no error."""
        return judge([(self, effect)])[0]

    @property
    def words(self) -> str:
        """The criterion as it stands on the page."""
        if self.kind == "equality":
            return f"within ±{self.margin:g}"
        return "above 0" if self.margin == 0 else f"above -{self.margin:g}"


def holm(p_values: Sequence[float], level: float = LEVEL) -> list[bool]:
    """Decide which of k hypotheses are rejected: in the order of p, while p <= level / (those not yet rejected)."""
    rejected = [False] * len(p_values)
    order = sorted(range(len(p_values)), key=lambda index: (math.isnan(p_values[index]), p_values[index]))
    for place, index in enumerate(order):
        if not p_values[index] <= level / (len(order) - place):
            break
        rejected[index] = True
    return rejected


def judge(parts: Sequence[tuple[Criterion, Effect]]) -> list[Verdict]:
    """The verdicts on comparisons that decide one claim; what is not measured yet counts in their number."""
    tested = [criterion.test(effect) for criterion, effect in parts]
    decided = holm([p for p, _ in tested])
    return [verdict if known else "undecided" for (_, verdict), known in zip(tested, decided, strict=True)]


def overall(verdicts: Sequence[Verdict]) -> Overall:
    """The verdict on a claim from those on its comparisons."""
    if not verdicts or set(verdicts) == {"undecided"}:
        return "undecided"
    if "holds" not in verdicts:
        return "does not hold"
    return "holds" if set(verdicts) == {"holds"} else "holds in part"


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many parts of a claim hold and how many do not, in words."""
    holds, fails = verdicts.count("holds"), verdicts.count("does not hold")
    words = f"{holds} of {len(verdicts)} parts {'holds' if holds == 1 else 'hold'}"
    return words + (f", {fails} {'does' if fails == 1 else 'do'} not" if fails else "")
