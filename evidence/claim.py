"""A claim as data: what is compared, on which networks, and when it holds.

Difference     a figure of one arm against a figure of another, seed by seed
AtEqualEntropy two curves of a judge's nats per token over entropy H: with i over the points of one within the range of
               the other, and the other way round,
               mean of  nats_other(H_i) - nats_i  and  nats_j - nats_favoured(H_j);
               NaN, which decides nothing, where the curves have no range in common
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from evidence.verdicts import Criterion, Effect, Verdict, overall
from tokenloom.evaluation.frontier import nats_at_entropy

Records = Mapping[tuple[str, str, int], Mapping[str, Any]]
"""Measurements by (setting, arm, seed): a mapping from the name of a measure to what it found."""
Role = Literal["claim", "remedy", "context"]
SEEDS = (1, 2, 3)
BETTER = Criterion()


@dataclass(frozen=True)
class Figure:
    """A number of an arm: the name of a measure and the way to the number inside it, as in ancestral/mean."""

    arm: str
    measure: str
    key: str

    def of(self, record: Mapping[str, Any]) -> float:
        """The number."""
        found: Any = record[self.measure]
        for part in self.key.split("/"):
            found = found[part]
        return float(found)


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

    @property
    @abstractmethod
    def needs(self) -> tuple[tuple[str, str], ...]:
        """The arms, each with the measure that it must have."""

    @abstractmethod
    def of_seed(self, records: Records, seed: int) -> float:
        """The effect of a seed."""

    def effect(self, records: Records, seeds: Sequence[int] = SEEDS) -> Effect:
        """The effects of the seeds that were measured on both sides."""
        return Effect(tuple(self.of_seed(records, seed) for seed in seeds if self.is_measured(records, seed)))

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


Points = Sequence[Mapping[str, Any]]


def _gains(points: Points, curve: Points, shared: set[tuple[float, float]]) -> Iterator[float]:
    """How far points lie below a curve at their entropies; those outside its range and those on both are left out."""
    for point in points:
        entropy, nats = float(point["entropy"]), float(point["nats_per_token"])
        there = nats_at_entropy(curve, entropy)
        if there is not None and (entropy, nats) not in shared:
            yield there - nats


def bounds(
    favoured: str, other: str, margin: float = 0.0, role: Role = "claim", settings: Sequence[str] = ("markov", "text8")
) -> tuple[Comparison, ...]:
    """The likelihood bounds of two arms against each other, on every setting; a margin is in nats per token."""
    return tuple(
        Difference(
            f"bound of {favoured} against {other}",
            setting,
            "nats per token",
            Criterion("advantage", margin),
            role,
            favoured=Figure(favoured, "bound", "per_token"),
            other=Figure(other, "bound", "per_token"),
        )
        for setting in settings
    )


@dataclass(frozen=True)
class AtEqualEntropy(Comparison):
    """A curve against another; both are named by arm and curve."""

    favoured: tuple[str, str] = field(kw_only=True)
    other: tuple[str, str] = field(kw_only=True)

    @property
    def needs(self) -> tuple[tuple[str, str], ...]:
        return tuple((arm, f"curve: {curve}") for arm, curve in (self.favoured, self.other))

    def of_seed(self, records: Records, seed: int) -> float:
        ours, theirs = (
            records[self.setting, arm, seed][f"curve: {curve}"]["points"] for arm, curve in (self.favoured, self.other)
        )
        shared = {(point["entropy"], point["nats_per_token"]) for point in ours} & {
            (point["entropy"], point["nats_per_token"]) for point in theirs
        }
        gains = [*_gains(ours, theirs, shared), *(-gain for gain in _gains(theirs, ours, shared))]
        return sum(gains) / len(gains) if gains else math.nan


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

    def verdict(self, records: Records) -> Verdict:
        """The verdict on the claim."""
        return overall([part.verdict(records) for part in self.comparisons if part.role == "claim"])

    beside: tuple[tuple[str, str, str], ...] = ()
    """(setting, arm, measure) that are drawn and not compared, of the first seed."""

    @property
    def compared(self) -> set[tuple[str, str, str]]:
        """(setting, arm, measure) of all comparisons, which every seed must have."""
        return {(part.setting, arm, measure) for part in self.comparisons for arm, measure in part.needs}

    def needs(self, seed: int) -> set[tuple[str, str, str]]:
        """(setting, arm, measure) that a seed must have."""
        return self.compared | (set(self.beside) if seed == SEEDS[0] else set())
