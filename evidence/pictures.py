"""The pictures of the page: every seed or the spread over seeds, exact values as lines; colours also differ in grey."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from evidence.claim import Records
from evidence.measures.curves import curve_name
from evidence.measures.solving import BUDGETS as SUDOKU_BUDGETS
from evidence.settings import SEEDS
from evidence.verdicts import Effect
from tokenloom.evaluation.plots import COLOURS, INK, band, canvas

TITLES = {
    "chain": "Markov chain",
    "stories": "TinyStories",
    "long": "Markov chain, 256 tokens",
    "sudoku": "Sudoku, 29 to 37 givens",
}
BOTH = ("chain", "stories")


def figures(records: Records, setting: str, arm: str, measure: str) -> list[Any]:
    """What a measure found, seed by seed."""
    found = (records.get((setting, arm, seed), {}).get(measure) for seed in SEEDS[setting])
    return [item for item in found if item is not None]


def references(records: Records, setting: str, key: str) -> Iterator[tuple[str, float]]:
    """Lines beside the arms: an autoregressive network, and counts of n-grams."""
    for item in figures(records, setting, "ar", "bound")[:1]:
        yield "AR", item[key]
    for found in figures(records, setting, "counts", "n-grams"):
        yield from ((f"{order}-grams", item["per_token"]) for order, item in found.items())


def shown(values: Sequence[Sequence[float]]) -> float:
    """Where an axis ends, so that one arm that is far from all others does not hide their differences."""
    *others, last = sorted((each for each in values if each), key=mean) or [[math.nan]]
    if len(others) < 2:
        return math.inf
    low, high = mean(others[0]), max(map(max, others))
    return math.inf if mean(last) - low < 3 * (high - low) else high + 0.2 * (high - low)


def mean(values: Sequence[float]) -> float:
    """The mean of a few numbers."""
    return Effect(tuple(values)).mean


def error(values: Sequence[float]) -> float:
    """Its standard error; 0 for a single number."""
    spread = sum((value - mean(values)) ** 2 for value in values) / max(len(values) - 1, 1)
    return math.sqrt(spread / len(values))


@dataclass(frozen=True)
class Bounds:
    """The bound of each arm: a dot per seed, a bar for their mean; lines are the entropy, an AR network and n-grams."""

    arms: tuple[str, ...]
    """Names of arms, or arm: measure where it is not `bound`."""

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        units = {
            "chain": ("nats per token above the entropy", "above_exact"),
            "stories": ("nats per token", "per_token"),
        }
        with canvas(path, 1, 2, 8.4, 0.9 + 0.3 * len(self.arms)) as (_, grid):
            for axes, (setting, (label, key)) in zip(grid[0], units.items(), strict=True):
                found = [self._values(records, setting, arm, key) for arm in self.arms]
                most = shown(found)
                for row, (arm, values) in enumerate(zip(self.arms, found, strict=True)):
                    colour = COLOURS[0] if "loo" in arm or arm == "max-coupling" else COLOURS[1]
                    if values and mean(values) > most:
                        axes.annotate(f"{mean(values):.2f} >", (most, row), ha="right", va="center", color=colour)
                    elif values:
                        axes.plot([mean(values)] * 2, [row - 0.28, row + 0.28], color=colour, linewidth=2.4)
                        axes.plot(values, [row] * len(values), "o", color=colour, markersize=4.5, alpha=0.75)
                if most < math.inf:
                    axes.set_xlim(right=most)
                axes.set_yticks(range(len(self.arms)), self.arms if setting == "chain" else [""] * len(self.arms))
                axes.set_ylim(len(self.arms) - 0.5, -0.5)
                axes.set(xlabel=label, title=TITLES[setting])
                if setting == "chain":
                    axes.axvline(0, color=INK, linewidth=0.9, linestyle="--")
                for place, (name, value) in enumerate(references(records, setting, key)):
                    axes.axvline(value, color=INK, linewidth=0.9, linestyle=":")
                    height = len(self.arms) - 0.6 - 0.45 * place  # one above the other, where lines are close
                    axes.annotate(f" {name}", (value, height), fontsize=7)

    def _values(self, records: Records, setting: str, arm: str, key: str) -> list[float]:
        name, _, measure = arm.partition(": ")
        return [item[key] for item in figures(records, setting, name, measure or "bound")]


@dataclass(frozen=True)
class Frontiers:
    """Nats per token of the judge against entropy; a cross has the spread of the seeds, the star is held-out data."""

    curves: tuple[tuple[str, str], ...]
    """Arm and curve."""
    panels: tuple[tuple[str, int], ...]
    """Setting and budget of evaluations."""

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        several = len({arm for arm, _ in self.curves}) > 1
        rows = math.ceil(len(self.panels) / 2)
        columns = min(len(self.panels), 2)
        with canvas(path, rows, columns, 4.2 * columns, 0.7 + 3.6 * rows) as (figure, grid):
            for axes, (setting, budget) in zip([axes for row in grid for axes in row], self.panels, strict=True):
                for number, (arm, curve) in enumerate(self.curves):
                    found = figures(records, setting, arm, curve_name(curve, budget))
                    if found:
                        _curve(
                            axes, [item["points"] for item in found], f"{arm}: {curve}" if several else curve, number
                        )
                        data = found[0]["data"]
                if axes.lines:
                    axes.axvline(data["entropy"], color=INK, linewidth=0.9, linestyle="--")
                    axes.plot(
                        data["entropy"], data["nats_per_token"], "*", color=INK, markersize=11, label="held-out data"
                    )
                axes.set(
                    xlabel="unigram entropy of a sample, nats",
                    ylabel="nats per token (judge)",
                    title=f"{TITLES[setting]}, {budget} evaluations",
                )
            handles, labels = grid[0][0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8)


def _curve(axes: Any, seeds: Sequence[Sequence[Mapping[str, float]]], label: str, number: int) -> None:
    """One curve: the points of all seeds with the same knob are one cross; they are joined in the order of entropy."""
    knobs = [
        [[point[axis] for point in knob] for axis in ("entropy", "nats_per_token")] for knob in zip(*seeds, strict=True)
    ]
    ordered = sorted(knobs, key=lambda knob: mean(knob[0]))
    x, y = ([mean(knob[axis]) for knob in ordered] for axis in (0, 1))
    spread = [[2 * error(knob[axis]) for knob in ordered] for axis in (0, 1)]
    colour, marker = COLOURS[number % len(COLOURS)], "osD^vP"[number % 6]
    look = {"color": colour, "marker": marker, "markersize": 4.2, "linewidth": 1.4, "elinewidth": 0.9}
    axes.errorbar(x, y, yerr=spread[1], xerr=spread[0], label=label, **look)


@dataclass(frozen=True)
class SolveRates:
    """Puzzles solved: a dot for every seed, a bar for their mean, paler for fewer evaluations."""

    samplers: tuple[tuple[str, str, str], ...]
    """Label, arm and sampler."""

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        with canvas(path, 1, 1, 7.6, 0.9 + 0.4 * len(self.samplers)) as (_, grid):
            axes = grid[0][0]
            for row, (_, arm, sampler) in enumerate(self.samplers):
                found = [item[sampler] for item in figures(records, "sudoku", arm, "solving")]
                for place, budget in enumerate(SUDOKU_BUDGETS):
                    rates = [100 * item[str(budget)]["solve_rate"] for item in found if str(budget) in item]
                    if rates:
                        look = {"color": COLOURS[0], "markersize": 4, "alpha": 0.25 * (place + 1)}
                        at = row - 0.3 + 0.2 * place
                        axes.plot(rates, [at] * len(rates), "o", **look)
                        axes.plot([mean(rates)] * 2, [at - 0.1, at + 0.1], color=INK, linewidth=1.6)
            axes.set_yticks(range(len(self.samplers)), [label for label, _, _ in self.samplers])
            axes.set_ylim(len(self.samplers) - 0.5, -0.5)
            budgets = ", ".join(map(str, SUDOKU_BUDGETS))
            axes.set(xlim=(0, 100), xlabel=f"% solved; {budgets} evaluations from pale to dark", title=TITLES["sudoku"])


@dataclass(frozen=True)
class Distances:
    """Distance of triples of tokens from the chain's by sampler, less that of exact samples: a dot for every seed."""

    arms: tuple[str, ...]
    measure: str
    budgets: tuple[int, ...]

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        with canvas(path, 1, len(self.arms), 2.8 * len(self.arms), 2.9) as (_, grid):
            for axes, arm in zip(grid[0], self.arms, strict=True):
                found = figures(records, "chain", arm, self.measure)
                names = list(found[0][str(self.budgets[0])]) if found else []
                for row, (name, budget) in enumerate(product(names, self.budgets)):
                    values = [item[str(budget)][name]["triples"] - item["floor"]["triples"] for item in found]
                    axes.plot(values, [row] * len(values), "o", color=COLOURS[row % 2], markersize=4, alpha=0.7)
                    axes.plot([mean(values)] * 2, [row - 0.3, row + 0.3], color=INK, linewidth=1.6)
                labels = [f"{name}, {budget}" for name, budget in product(names, self.budgets)]
                axes.set_yticks(range(len(labels)), labels if arm == self.arms[0] else [""] * len(labels))
                axes.set(ylim=(max(len(labels), 1) - 0.5, -0.5), xlabel="total variation, triples", title=arm)


@dataclass(frozen=True)
class OwnTokens:
    """Dependence on the own token against time, mean and two standard errors over seeds."""

    arms: tuple[str, ...]

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        with canvas(path, 1, 2, 8.4, 3.6) as (figure, grid):
            for axes, setting in zip(grid[0], BOTH, strict=True):
                for number, arm in enumerate(self.arms):
                    found = [item["times"] for item in figures(records, setting, arm, "own token")]
                    if found:
                        values = [[item["total_variation"] for item in time] for time in zip(*found, strict=True)]
                        times = [item["t"] for item in found[0]]
                        band(
                            axes,
                            times,
                            [mean(value) for value in values],
                            [error(value) for value in values],
                            arm,
                            number,
                        )
                axes.set(xlabel="t", ylabel="total variation", title=TITLES[setting], xlim=(0, 1))
                axes.axhline(0, color=INK, linewidth=0.9, linestyle="--")
            handles, labels = grid[0][0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)


@dataclass(frozen=True)
class Drawn:
    """Nats of drawn tokens by the way of drawing, every seed a dot; 0 is the law, dots the closed form of float32."""

    def draw(self, records: Records, path: Path) -> None:
        """Write the picture; what is missing in the records is left out."""
        ways = (("textbook, float32", "float32"), ("exact", "exact"))
        with canvas(path, 1, 2, 8.4, 1.9) as (_, grid):
            for axes, arm in zip(grid[0], ("vocabulary of 50,257", "vocabulary of 27"), strict=True):
                for row, (_, way) in enumerate(ways):
                    found = figures(records, "softmax", arm, "drawing")
                    values = [item[way]["nats"] - item["law"]["nats"] for item in found]
                    axes.plot(values, [row] * len(values), "o", color=COLOURS[1 - row], markersize=5, alpha=0.8)
                axes.set_yticks(range(2), [label for label, _ in ways] if arm.endswith("257") else ["", ""])
                axes.set(ylim=(1.5, -0.5), xlim=(-0.8, 0.4), xlabel="nats per token, minus the law's", title=arm)
                axes.axvline(0, color=INK, linewidth=0.9, linestyle="--")
                for item in found[:1]:
                    closed = item["predicted"]["nats"] - item["law"]["nats"]
                    axes.axvline(closed, color=INK, linewidth=0.9, linestyle=":")
