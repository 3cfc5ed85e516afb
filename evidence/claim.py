"""A claim as data: what is compared, on which networks, and when it holds.

Difference     a figure of one arm against a figure of another, seed by seed and group of rows by group of rows
AtEqualEntropy two curves of a judge's nats per token over entropy H: with i over the points of one within the range of
               the other, and the other way round,
               mean of  nats_other(H_i) - nats_i  and  nats_j - nats_favoured(H_j);
               NaN, which decides nothing, where the curves have no range in common; points outside it cannot be
               compared and are counted on the page
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from evidence.settings import SEEDS
from evidence.verdicts import Criterion, Effect, Overall, Verdict, judge, overall
from tokenloom.evaluation.frontier import nats_at_entropy

Records = Mapping[tuple[str, str, int], Mapping[str, Any]]
"""Measurements by (setting, arm, seed): a mapping from the name of a measure to what it found."""
Role = Literal["claim", "remedy", "context"]
Need = tuple[str, str, str]
"""A setting, an arm and a measure that it must have."""
BETTER = Criterion()


@dataclass(frozen=True)
class Figure:
    """A number of an arm: the name of a measure and the way to the number inside it, as in ancestral/mean.

    Beside a number `mean` may stand `mean_groups`: its values on consecutive groups of rows, which all seeds share.
    """

    arm: str
    measure: str
    key: str

    def of(self, record: Mapping[str, Any]) -> float:
        """The number."""
        found, name = self._place(record)
        return float(found[name])

    def groups_of(self, record: Mapping[str, Any]) -> tuple[float, ...]:
        """The same of groups of rows; empty where they are not kept, as where every seed has rows of its own."""
        found, name = self._place(record)
        return tuple(float(value) for value in found.get(f"{name}_groups", ()))

    def _place(self, record: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """What the number is an item of, and its name there."""
        found: Any = record[self.measure]
        *parts, name = self.key.split("/")
        for part in parts:
            found = found[part]
        return found, name


@dataclass(frozen=True)
class Comparison(ABC):
    """One effect per seed, positive where the claim is right."""

    what: str
    """A line of the table."""
    setting: str
    unit: str
    criterion: Criterion = BETTER
    role: Role = "claim"
    """`remedy` and `context` are shown and judged, but do not decide the claim."""
    paper: str = ""
    """The paper's own figure for the same comparison, where it has one."""

    @property
    @abstractmethod
    def needs(self) -> tuple[tuple[str, str], ...]:
        """The arms, each with the measure that it must have."""

    @abstractmethod
    def of_seed(self, records: Records, seed: int) -> float:
        """The effect of a seed."""

    def groups_of_seed(self, records: Records, seed: int) -> tuple[float, ...]:
        """The effect of a seed on each group of rows that all seeds share; empty where they share none."""
        return ()

    def note(self, records: Records) -> str:
        """What a reader must know beside the effect; empty where it covers all that was measured."""
        return ""

    def effect(self, records: Records) -> Effect:
        """The effects of the seeds that were measured on both sides."""
        seeds = [seed for seed in SEEDS[self.setting] if self.is_measured(records, seed)]
        groups = [self.groups_of_seed(records, seed) for seed in seeds]
        shared = zip(*groups, strict=True) if all(groups) else ()
        by_group = tuple(sum(values) / len(values) for values in shared)
        return Effect(tuple(self.of_seed(records, seed) for seed in seeds), by_group)

    def is_measured(self, records: Records, seed: int) -> bool:
        """Whether a seed has all it takes."""
        return all(measure in records.get((self.setting, arm, seed), {}) for arm, measure in self.needs)

    def verdict(self, records: Records) -> Verdict:
        """The verdict on this comparison alone."""
        return self.criterion(self.effect(records))


@dataclass(frozen=True)
class Difference(Comparison):
    """A figure against another; `larger` says that more is better."""

    favoured: Figure = field(kw_only=True)
    other: Figure = field(kw_only=True)
    larger: bool = False

    @property
    def needs(self) -> tuple[tuple[str, str], ...]:
        return (self.favoured.arm, self.favoured.measure), (self.other.arm, self.other.measure)

    def of_seed(self, records: Records, seed: int) -> float:
        favoured, other = (figure.of(records[self.setting, figure.arm, seed]) for figure in (self.favoured, self.other))
        return favoured - other if self.larger else other - favoured

    def groups_of_seed(self, records: Records, seed: int) -> tuple[float, ...]:
        sides = [figure.groups_of(records[self.setting, figure.arm, seed]) for figure in (self.favoured, self.other)]
        if not all(sides):
            return ()
        sign = 1 if self.larger else -1
        return tuple(sign * (favoured - other) for favoured, other in zip(*sides, strict=True))


Points = Sequence[Mapping[str, Any]]


def _gains(points: Points, curve: Points, shared: set[tuple[float, float]]) -> Iterator[float]:
    """How far points lie below a curve at their entropies; those outside its range and those on both are left out."""
    for point in points:
        entropy, nats = float(point["entropy"]), float(point["nats_per_token"])
        there = nats_at_entropy(curve, entropy)
        if there is not None and (entropy, nats) not in shared:
            yield there - nats


@dataclass(frozen=True)
class AtEqualEntropy(Comparison):
    """A curve against another; both are named by arm and measure."""

    favoured: tuple[str, str] = field(kw_only=True)
    other: tuple[str, str] = field(kw_only=True)

    @property
    def needs(self) -> tuple[tuple[str, str], ...]:
        return tuple((arm, curve) for arm, curve in (self.favoured, self.other))

    def of_seed(self, records: Records, seed: int) -> float:
        gains, _ = self._compared(records, seed)
        return sum(gains) / len(gains) if gains else math.nan

    def note(self, records: Records) -> str:
        found = [self._compared(records, seed) for seed in SEEDS[self.setting] if self.is_measured(records, seed)]
        compared, there = sum(len(gains) for gains, _ in found), sum(count for _, count in found)
        return "" if compared == there else f"{compared} of {there} points in a common range"

    def _compared(self, records: Records, seed: int) -> tuple[list[float], int]:
        """The gains of all points that can be compared, and the number of points that are not on both curves."""
        ours, theirs = (records[self.setting, arm, seed][curve]["points"] for arm, curve in (self.favoured, self.other))
        here, there = ({(point["entropy"], point["nats_per_token"]) for point in points} for points in (ours, theirs))
        shared = here & there
        gains = [*_gains(ours, theirs, shared), *(-gain for gain in _gains(theirs, ours, shared))]
        return gains, len(here - shared) + len(there - shared)


class Picture(Protocol):
    """Draws records to a file."""

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""


@dataclass(frozen=True)
class Claim:
    """A claim with all that decides it; the criteria were written before the runs."""

    name: str
    title: str
    source: str
    """Where the paper makes it, or whose it is."""
    comparisons: tuple[Comparison, ...]
    picture: Picture
    run: str
    """What was run, in a paragraph."""
    found: str
    """What was found, written after the runs."""
    limits: str
    """What it does not show."""
    pending: bool = False
    """True while its runs are not made; a test sees to it that nothing else is missing."""
    beside: tuple[tuple[str, str, str], ...] = ()
    """(setting, arm, measure) that are drawn and not compared, of the first seed."""

    @property
    def ours(self) -> bool:
        """True for a claim that the paper does not make."""
        return self.source.startswith("ours")

    @property
    def deciding(self) -> tuple[Comparison, ...]:
        """The comparisons that decide the claim, together."""
        return tuple(part for part in self.comparisons if part.role == "claim")

    def verdicts(self, records: Records) -> list[Verdict]:
        """The verdicts on all comparisons: those that decide are corrected for their number, others stand alone."""
        together = iter(self.decided(records))
        return [next(together) if part.role == "claim" else part.verdict(records) for part in self.comparisons]

    def decided(self, records: Records) -> list[Verdict]:
        """The verdicts on the comparisons that decide."""
        return judge([(part.criterion, part.effect(records)) for part in self.deciding])

    def verdict(self, records: Records) -> Overall:
        """The verdict on the claim."""
        return overall(self.decided(records))

    @property
    def compared(self) -> set[Need]:
        """The needs of all comparisons, which every seed must have."""
        return _needs(self.comparisons)

    @property
    def decisive(self) -> set[Need]:
        """The needs of those that decide the claim."""
        return _needs(self.deciding)

    def needs(self, seed: int) -> set[Need]:
        """The needs of a seed."""
        compared = {need for need in self.compared if seed in SEEDS[need[0]]}
        return compared | {need for need in self.beside if seed == SEEDS[need[0]][0]}


def _needs(comparisons: Sequence[Comparison]) -> set[Need]:
    return {(part.setting, arm, measure) for part in comparisons for arm, measure in part.needs}
